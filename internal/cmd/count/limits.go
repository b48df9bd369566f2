package main

// limits are what was reached.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names int }{
	lines: 0, product: 0, tools: 0, words: 0, pages: 0, performance: 0, modules: 0, names: 0,
}
