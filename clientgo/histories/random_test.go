package histories_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
)

// random puts both informers, at the same time, through one random history of a server that is
// right: writes, watches that end, refusals, compaction. It returns the rules that each breaks.
func random(t *testing.T, seed uint64) (broken []map[string]string) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		m := lw.NewMemory[*corev1.ConfigMap]()
		put := func() {
			c := config(fmt.Sprint("c", rnd.IntN(4)), "", "")
			c.Data = map[string]string{"n": fmt.Sprint(rnd.IntN(100))}
			_, err := m.Create(t.Context(), c)
			if err != nil {
				_, err = m.Update(t.Context(), c)
			}
			if err != nil {
				t.Error(err)
			}
		}
		remove := func() {
			// It may not be there.
			_, _ = m.Delete(t.Context(), lw.Key{Namespace: "default", Name: fmt.Sprint("c", rnd.IntN(4))}, "")
		}
		for range rnd.IntN(4) {
			put()
		}
		var fs []*follower
		for _, follow := range follows {
			fs = append(fs, follow(memory{m}, nil))
		}
		for range 10 + rnd.IntN(40) {
			switch n := rnd.IntN(20); {
			case n < 9:
				put()
			case n < 12:
				remove()
			case n < 13:
				remove()
				put()
			case n < 14:
				m.Disconnect()
			case n < 15:
				m.Compact()
			case n < 16: // what is written while no watch is open is never told
				m.Disconnect()
				remove()
				put()
				m.Compact()
			case n < 17:
				m.Fail(errors.New("connection refused"))
			case n < 18:
				m.Fail(nil)
			default:
				time.Sleep([]time.Duration{time.Millisecond, time.Second, time.Minute}[rnd.IntN(3)])
			}
			if rnd.IntN(2) == 0 {
				synctest.Wait()
			}
			for _, f := range fs {
				f.look()
			}
		}
		m.Fail(nil)
		time.Sleep(time.Hour)
		truth := map[string]string{}
		for c := range m.All() {
			truth[c.Name] = id(c)
		}
		for _, f := range fs {
			f.settle(truth)
			f.stop()
			broken = append(broken, f.broken)
		}
	})
	return broken
}
