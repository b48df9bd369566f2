package main

// limits are what was reached.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names int }{
	lines: 199_100, product: 91_000, tools: 24_650, words: 20_000, pages: 11, performance: 2_000, modules: 15, names: 390,
}
