// Command soak follows servers with informers for a long time, under random writes and faults, and
// checks what the informers show.
//
//	go run ./internal/cmd/soak -for 30m
//
// It runs one history after the other. A history is a world: a server, informers over HTTP, readers
// and handlers. It runs in a synctest bubble, where hours take milliseconds. Meanwhile one bigger
// world runs in real time, as long as the soak does.
//
// Every read is compared with the server's state at the version that the read reports. The calls of
// every handler must be possible and must add up to the collection. When the faults end, everything
// must catch up. When an informer stops, no goroutine may be left.
//
// From time to time soak prints what it has done, and the memory and goroutines of the process. It
// exits with 1 at the first violation, which it prints with the seed of its history, or if memory
// or goroutines have grown in the end.
//
// The same seed gives the same history, but goroutines run in another order each time. To repeat a
// failure use GOMAXPROCS=1 and -times.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

var (
	duration = flag.Duration("for", time.Minute, "how long to run")
	seed     = flag.Uint64("seed", 0, "run the history of this seed alone")
	times    = flag.Int("times", 1, "how often to run the history of -seed")
	verbose  = flag.Bool("trace", false, "print what happens in the history of -seed")
)

func main() {
	// A synctest bubble needs a *testing.T. Outside of go test only testing.Main provides one.
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "Soak", F: soak}}, nil, nil)
}

// soak runs the history of -seed, or histories and the long world until the time is over.
func soak(t *testing.T) {
	tally := &tally{faults: map[string]int{}}
	if *seed != 0 {
		trace := silent
		if *verbose {
			trace = func(format string, args ...any) {
				fmt.Printf("%s %s\n", time.Now().Format("15:04:05.000000"), fmt.Sprintf(format, args...))
			}
		}
		for range *times {
			if err := history(t, *seed, tally, trace); err != nil {
				t.Fatalf("seed %d: %v", *seed, err)
			}
		}
		fmt.Println(tally)
		return
	}
	end := time.Now().Add(*duration)
	long := newWorld(rand.New(rand.NewPCG(rand.Uint64(), 1)),
		shape{names: 3000, pauses: 20 * time.Millisecond, reads: 200 * time.Millisecond, watch: 20 * time.Second,
			patience: 3 * time.Minute}, tally, silent)
	lived := make(chan struct{})
	go func() {
		defer close(lived)
		for time.Now().Before(end) && long.err() == nil && !t.Failed() {
			for pause := time.Now().Add(time.Minute); time.Now().Before(pause) && time.Now().Before(end) && !t.Failed(); {
				long.step()
				tally.steps.Add(1)
			}
			long.settle()
		}
	}()

	var samples []sample
	note := time.Now()
	for time.Now().Before(end) && !t.Failed() && long.err() == nil {
		s := rand.Uint64() | 1
		if err := history(t, s, tally, silent); err != nil {
			t.Errorf("%v", err)
			fmt.Printf("go run ./internal/cmd/soak -seed %d -times 100: %v\n", s, err)
		}
		if time.Since(note) > *duration/30 {
			note = time.Now()
			samples = append(samples, takeSample())
			report(samples, tally)
		}
	}
	<-lived
	if err := long.err(); err != nil {
		t.Errorf("the long world: %v", err)
	}
	samples = append(samples, takeSample())
	report(samples, tally)
	long.stop()
	if err := long.err(); err != nil && !t.Failed() {
		t.Errorf("the end of the long world: %v", err)
	}
	fmt.Printf("in all: %v\nfaults: %s\n", tally, tally.byFault())
	if err := growth(samples); err != nil {
		t.Error(err)
	}
	// The main goroutine and this one are the test's own. The limit leaves room for two more.
	time.Sleep(100 * time.Millisecond)
	if n := runtime.NumGoroutine(); n > 4 {
		t.Errorf("%d goroutines are left", n)
	}
}

func silent(string, ...any) {}

// report prints the last sample and the tally.
func report(samples []sample, tally *tally) {
	s := samples[len(samples)-1]
	fmt.Fprintf(os.Stdout, "%s heap %d KiB, %d goroutines; %v\n",
		s.at.Format(time.TimeOnly), s.heap>>10, s.goroutines, tally)
}

// history runs one world from its start to its end, in a bubble.
func history(t *testing.T, seed uint64, tally *tally, trace func(string, ...any)) (err error) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		pauses := []time.Duration{100 * time.Millisecond, 10 * time.Second, 10 * time.Minute}[rnd.IntN(3)]
		w := newWorld(rnd, shape{
			names: 1 + rnd.IntN(12), pauses: pauses, reads: pauses / 4, watch: 5 * time.Minute, patience: time.Hour,
		}, tally, trace)
		for range 1 + rnd.IntN(3) {
			for range rnd.IntN(60) {
				w.step()
				tally.steps.Add(1)
				if rnd.IntN(3) == 0 {
					synctest.Wait()
				}
			}
			w.settle()
		}
		w.stop()
		err = w.err()
	})
	tally.histories.Add(1)
	return err
}
