package main

// limits are what was reached.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names int }{
	lines: 195_500, product: 90_700, tools: 26_000, words: 20_000, pages: 11, performance: 2_000, modules: 15, names: 430,
}
