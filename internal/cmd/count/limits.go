package main

// limits are what was reached.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names int }{
	lines: 199_100, product: 91_200, tools: 24_700, words: 20_000, pages: 11, performance: 2_000, modules: 15, names: 390,
}
