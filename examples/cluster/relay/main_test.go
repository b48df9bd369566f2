package main

import "testing"

func TestDemo(t *testing.T) {
	if err := demo(t.Context()); err != nil {
		t.Error(err)
	}
}
