package lw

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
)

// updates returns a history of so many objects, of which i is the i-th delta.
func updates(objects int) func(i int) Delta[*ball] {
	balls := make([][2]*ball, objects)
	for i := range balls {
		balls[i] = [2]*ball{newBall("object-"+strconv.Itoa(i), i, 1), newBall("object-"+strconv.Itoa(i), i, 2)}
	}
	return func(i int) Delta[*ball] {
		b := &balls[i%objects]
		turn := i / objects % 2
		if i < objects { // so that no net change is none
			return Delta[*ball]{Type: Added, Cause: CauseWatch, New: b[1], ResourceVersion: "1"}
		}
		return Delta[*ball]{Type: Updated, Cause: CauseWatch, Old: b[turn], New: b[1-turn], ResourceVersion: "2"}
	}
}

// BenchmarkLog is the cost of one delta, pushed and read by so many cursors in turn: what a handler adds is the slope.
func BenchmarkLog(b *testing.B) {
	for _, cursors := range []int{0, 1, 4, 16, 64} {
		b.Run(fmt.Sprint("cursors=", cursors), func(b *testing.B) {
			b.ReportAllocs()
			q := NewFIFO[*ball]()
			all := make([]*Cursor[*ball], cursors)
			for i := range all {
				all[i] = q.Subscribe()
			}
			update := updates(1000)
			read := 0
			for i := 0; b.Loop(); i++ {
				q.push(update(i))
				if i%64 == 63 {
					for _, c := range all {
						part, _, _ := c.poll()
						for j := range part {
							read += int(part[j].Type)
						}
					}
				}
			}
		})
	}
}

// BenchmarkHandlers is the same with a goroutine a cursor that parks when it has caught up.
func BenchmarkHandlers(b *testing.B) {
	for _, cursors := range []int{1, 4, 16} {
		b.Run(fmt.Sprint("cursors=", cursors), func(b *testing.B) {
			b.ReportAllocs()
			q := NewFIFO[*ball]()
			var wg sync.WaitGroup
			var mu sync.Mutex
			told := 0
			for range cursors {
				c := q.Subscribe()
				wg.Go(func() {
					n := 0
					for {
						part, _, err := c.next(b.Context())
						if err != nil {
							break
						}
						n += len(part)
					}
					mu.Lock()
					defer mu.Unlock()
					told += n
				})
			}
			update := updates(10_000)
			n := 0
			for b.Loop() {
				q.push(update(n))
				n++
			}
			q.Close()
			wg.Wait()
			b.ReportMetric(float64(told)/float64(cursors)/float64(n), "told/op")
		})
	}
}

// BenchmarkBlocked is the cost of a delta for a cursor that is never read.
func BenchmarkBlocked(b *testing.B) {
	for _, objects := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint("objects=", objects), func(b *testing.B) {
			b.ReportAllocs()
			q := NewFIFO[*ball]()
			q.Subscribe()
			update := updates(objects)
			for i := 0; b.Loop(); i++ {
				q.push(update(i))
			}
		})
	}
}

// BenchmarkWakeUp is the way from a push to a handler that waits, and back.
func BenchmarkWakeUp(b *testing.B) {
	q := NewFIFO[*ball]()
	c := q.Subscribe()
	told := make(chan struct{})
	go func() {
		for {
			if _, _, err := c.next(b.Context()); err != nil {
				return
			}
			told <- struct{}{}
		}
	}()
	d := numbered(1)
	b.ReportAllocs()
	for b.Loop() {
		q.push(d)
		<-told
	}
	q.Close()
}

func BenchmarkSubscribe(b *testing.B) {
	q := NewFIFO[*ball]()
	b.ReportAllocs()
	for b.Loop() {
		q.Subscribe().Close()
	}
}
