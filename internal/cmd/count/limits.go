package main

// limits are what was reached, with what own writes, the engine of writes, simulate and lwbuild
// took.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names, root, longest int }{
	lines: 221_150, product: 104_210, tools: 25_000, words: 21_720, pages: 13, performance: 2_000, modules: 24, names: 416, root: 80, longest: 600,
}
