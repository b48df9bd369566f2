package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// line is the last line of a terminal, which is written again and again; elsewhere it is a line each second.
type line struct {
	mu    sync.Mutex
	shown bool
	last  time.Time
}

var isTerminal = func() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}()

// show replaces the line.
func (l *line) show(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case isTerminal:
		fmt.Printf("\r\033[K"+format, args...)
		l.shown = true
	case time.Since(l.last) >= time.Second:
		fmt.Printf(format+"\n", args...)
		l.last = time.Now()
	}
}

// print prints above the line.
func (l *line) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Print("\r\033[K")
	}
	fmt.Printf(format+"\n", args...)
	l.shown = false
}

// end leaves the line as it is.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Println()
	}
	l.shown = false
}
