package main

import (
	"context"
	"testing"
)

// TestDemo is what the command does without arguments.
func TestDemo(t *testing.T) {
	if err := demo(context.Background(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
}
