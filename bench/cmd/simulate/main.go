// Command simulate shows what happens when thousands of clients follow one API server: all of them
// start, or the server restarts, or is away for long. It prints the tables of
// bench/results/scale.md.
//
//	go run ./cmd/simulate
//
// The clients are real, and the server is a model (see package simulate). The time is that of a
// testing/synctest bubble, so hours pass in seconds. A bubble needs a test, so this program runs
// one. The clients' random pauses are not seeded: two runs differ by a few per cent, and in when
// the very last client follows by more.
//
// Command scale, in contrast, measures how the cost of single operations grows.
package main

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-lw/lw/bench/internal/simulate"
)

func main() {
	short := flag.Bool("short", false, "simulate a fiftieth of the clients")
	only := flag.String("only", "", "run one `part`: starts, restarts or outages")
	flag.Parse()
	p := program{out: os.Stdout, log: os.Stderr, divide: 1, only: *only}
	if *short {
		p.divide = 50
	}
	simulate.Silence()
	// testing.Main is for programs that stand in for go test. It ends the process.
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "simulate", F: func(t *testing.T) {
		if err := p.run(t); err != nil {
			fmt.Fprintln(os.Stderr, "simulate:", err)
			t.Fail()
		}
	}}}, nil, nil)
}
