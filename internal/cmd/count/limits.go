package main

// limits are what was reached.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names int }{
	lines: 197_000, product: 94_500, tools: 32_500, words: 20_000, pages: 11, performance: 2_000, modules: 23, names: 430,
}
