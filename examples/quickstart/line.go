package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// line is a status line. On a terminal it is the last line, which show overwrites. Elsewhere show
// prints at most one line a second.
type line struct {
	mu    sync.Mutex // guards what follows
	shown bool       // the status line is on the terminal
	last  time.Time  // when a line was printed, if the output is not a terminal
}

var isTerminal = func() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}()

// show replaces the status line.
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

// print prints a line that stays. The next show puts the status line below it.
func (l *line) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Print("\r\033[K")
	}
	fmt.Printf(format+"\n", args...)
	l.shown = false
}

// end keeps the status line as it is, and begins a new line.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Println()
	}
	l.shown = false
}
