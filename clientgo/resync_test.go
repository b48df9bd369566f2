package clientgo_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

// The periods at which a handler gets its resyncs, by the period of the informer, of the handler,
// and whether it is added late. -1: it asks for none. A lent informer has no period of its own: it
// gives each handler what it asks for.
func TestResync(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		informer, handler time.Duration
		late              bool
		other             time.Duration // of another handler, from the beginning; 0: there is none
		want, lent        time.Duration
	}{
		"of the informer":                   {informer: 5 * s, handler: -1, want: 5 * s},
		"of the handler":                    {informer: 5 * s, handler: 10 * s, want: 10 * s, lent: 10 * s},
		"shorter than the informer's":       {informer: 5 * s, handler: 2 * s, want: 2 * s, lent: 2 * s},
		"shorter, but late":                 {informer: 5 * s, handler: 2 * s, late: true, want: 5 * s, lent: 2 * s},
		"late, but another one is as short": {informer: 5 * s, handler: 2 * s, late: true, other: 2 * s, want: 2 * s, lent: 2 * s},
		"less than a second":                {informer: 5 * s, handler: 10 * time.Millisecond, want: s, lent: s},
		"none":                              {informer: 5 * s, handler: 0},
		"an informer that does not":         {informer: 0, handler: 5 * s, lent: 5 * s},
		"an informer below a second":        {informer: s / 2, handler: -1, want: s},
		"of the informer, late":             {informer: 5 * s, handler: -1, late: true, want: 5 * s},
		"an informer that does not, late":   {informer: 0, handler: 5 * s, late: true, lent: 5 * s},
	} {
		t.Run(name, func(t *testing.T) {
			overAll(t, func(t *testing.T, impl implementation, server *podMemory) {
				server.create(t, labelled("a"))
				inf := impl.new(server, cache.SharedIndexInformerOptions{ResyncPeriod: tc.informer})
				var got calls
				var resync []time.Duration
				if tc.handler >= 0 {
					resync = append(resync, tc.handler)
				}
				if tc.other > 0 {
					mustAdd(t, inf, &calls{}, tc.other)
				}
				if !tc.late {
					mustAdd(t, inf, &got, resync...)
				}
				runInformer(t, inf)
				synctest.Wait()
				if tc.late {
					mustAdd(t, inf, &got, resync...)
				}
				got.want(t, "the first list", "add a initial")
				want := tc.want
				if impl.lent {
					want = tc.lent
				}
				var lines []string
				if want > 0 {
					for range 60 * s / want {
						lines = append(lines, "update a from a")
					}
				}
				time.Sleep(60*s + s/4)
				got.want(t, "a minute", lines...)
			})
		})
	}
}
