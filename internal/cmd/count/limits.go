package main

// limits are what was reached, with what own writes, the engine of writes, simulate and lwbuild
// took.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names, root, longest int }{
	lines: 218_500, product: 103_250, tools: 24_850, words: 21_450, pages: 13, performance: 2_000, modules: 20, names: 416, root: 80, longest: 600,
}
