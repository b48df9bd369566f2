package main

// limits are what was reached, with what own writes, the engine of writes, simulate and lwbuild
// took.
var limits = struct{ lines, product, tools, words, pages, performance, modules, names, root, longest, wide, branchy int }{
	lines: 208_980, product: 103_790, tools: 24_890, words: 21_810, pages: 13, performance: 2_000, modules: 27, names: 416, root: 80, longest: 600, branchy: 4,
	wide: 2, // the output of an example, and a line that a test reads
}
