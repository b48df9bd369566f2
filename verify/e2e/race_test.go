//go:build race

package e2e_test

// slowdown is by how much longer a wait may take.
const slowdown = 4
