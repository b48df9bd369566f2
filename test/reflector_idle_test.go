package lw_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
)

// A cutter is a source that ends each watch after so long, as a proxy does with a connection that is idle.
type cutter struct {
	lw.Source[*Widget]
	after func() time.Duration
}

func (c *cutter) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	cut := errors.New("cut")
	ctx, cancel := context.WithTimeoutCause(ctx, c.after(), cut)
	defer cancel()
	err := c.Source.Watch(ctx, opts, yield)
	if context.Cause(ctx) == cut {
		return nil
	}
	return err
}

// Watches that a proxy cuts while they are idle are healthy: a change is seen at once, without a list, and the server is asked
// for its version now and then.
func TestIdleWatchesAreCut(t *testing.T) {
	for _, after := range []time.Duration{1500 * time.Millisecond, 5 * time.Second, 9 * time.Second, 15 * time.Second, 50 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lw.NewMemory(widget("a", 1))
				errs := new(errorLog)
				inf := run(t, &cutter{m, func() time.Duration { return after }}, &lw.Options{List: lw.ListPages, OnError: errs.add})
				sleep(after / 2)
				for size := 2; size < 12; size++ {
					sleep(7 * time.Minute)
					update(t, m, "a", size)
					sleep(50 * time.Millisecond)
					if got, _ := inf.Store().Get(key("a")); got.Size != size {
						t.Errorf("a change after %v is not shown", 7*time.Minute)
					}
				}
				s := inf.Status()
				if s.Lists != 1 || s.Failures != 0 || s.Healthy() != nil || len(errs.all()) > 0 {
					t.Errorf("%d lists, %d failures, errors: %v", s.Lists, s.Failures, errs.all())
				}
				if s.Probes < 10 || s.Probes > 25 {
					t.Errorf("%d probes in 70 minutes", s.Probes)
				}
			})
		})
	}
}

// Cuts end the failures of before, once the server has said that it has the position. A server that is older is found out by
// the first cut; one that was restored later by one of those in the next minutes.
func TestCutsAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watches := 0
		src := &script{
			list: func() reply { return list("10", stamped("a", 1, "9")) },
			watch: func() stream {
				if watches++; watches < 4 {
					return stream{err: apierrors.NewInternalError(errors.New("etcd"))}
				}
				return stream{after: 6 * time.Second}
			},
		}
		inf, _ := paged(t, src, time.Minute)
		if s := inf.Status(); s.Failures != 0 {
			t.Errorf("%d failures: %v", s.Failures, s.Err)
		}
	})
	for _, healthy := range []time.Duration{0, 20 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			src := &script{
				list: func() reply {
					if time.Since(began) <= healthy {
						return list("100", stamped("a", 1, "99"))
					}
					return list("50", stamped("a", 2, "49"))
				},
				watch: func() stream { return stream{after: 6 * time.Second} },
			}
			inf, errs := paged(t, src, healthy+6*time.Minute)
			mustHold(t, inf.Store(), "50", map[string]int{"a": 2})
			errs.mustBe(t, lw.ErrRewound)
		})
	}
}

// A server that closes watches at once is not hammered, whether it says why or not.
func TestWatchesThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &script{
			list:  func() reply { return list("10", stamped("a", 1, "9")) },
			watch: func() stream { return stream{after: 100 * time.Millisecond} },
		}
		inf, errs := paged(t, src, 10*time.Minute)
		if s := inf.Status(); s.Watches > 60 || s.Failures == 0 || len(errs.all()) == 0 {
			t.Errorf("%d watches, %d failures", s.Watches, s.Failures)
		}
	})
}

// Where lists are allowed and watches are not, a change is seen after 10 to 30 s, and the error says so of both.
func TestWatchIsRefused(t *testing.T) {
	gr := schema.GroupResource{Resource: "widgets"}
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: "no"}}
	}
	for name, refusal := range map[string]error{
		"forbidden": apierrors.NewForbidden(gr, "", errors.New("no")), "no such method": apierrors.NewMethodNotSupported(gr, "watch"),
		"no such path": status(404), "not implemented": status(501),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				size := 1
				src := &script{
					list: func() reply {
						mu.Lock()
						defer mu.Unlock()
						return list(fmt.Sprint(10*size), stamped("a", size, fmt.Sprint(10*size-1)))
					},
					watch: func() stream { return stream{err: refusal} },
				}
				inf, errs := paged(t, src, 5*time.Minute)
				for range 20 {
					mu.Lock()
					size++
					want := size
					mu.Unlock()
					sleep(31 * time.Second)
					if got, _ := inf.Store().Get(key("a")); got.Size != want {
						t.Errorf("a change is not seen after half a minute")
					}
				}
				if s := inf.Status(); s.Lists < 30 || s.Lists > 100 || s.Failures == 0 || s.Healthy() != nil {
					t.Errorf("%d lists, %d failures, %v", s.Lists, s.Failures, s.Healthy())
				}
				errs.mustBe(t, refusal)
				errs.mustHave(t, "the list is answered, but the watch is refused")
			})
		})
	}
}

// A server that gives one version to every state is found out by the first change that it tells. From then on what it lists is
// compared whole. A newer version ends that.
func TestOneVersionForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		version, content := "5", []*Widget{stamped("a", 1, "5"), stamped("b", 1, "5")}
		next := make(chan lw.WatchEvent[*Widget])
		src := &teller{
			list: func() reply {
				mu.Lock()
				defer mu.Unlock()
				return list(version, content...)
			},
			next: next,
		}
		set := func(v string, objs ...*Widget) {
			mu.Lock()
			defer mu.Unlock()
			version, content = v, objs
		}
		errs, got := new(errorLog), new(calls)
		inf := run(t, src, &lw.Options{List: lw.ListPages, OnError: errs.add})
		inf.AddHandler(got.handler())
		got.sorted(t, "add a1", "add b1", "synced")
		a := stamped("a", 2, "5")
		set("5", a, stamped("b", 1, "5"))
		next <- modified(a)
		sleep(time.Second)
		got.mustBe(t, "update a1 a2")
		sleep(time.Minute)
		set("5", a)
		next <- deleted(stamped("b", 1, "5"))
		sleep(time.Minute)
		got.mustBe(t, "delete b1")
		if err := inf.Status().Healthy(); err != nil || len(errs.all()) == 0 {
			t.Errorf("%v, errors: %v", err, errs.all())
		}
		set("6", stamped("a", 4, "6"))
		next <- modified(stamped("a", 4, "6"))
		sleep(time.Minute)
		got.mustBe(t, "update a2 a4")
		before := inf.Status().Lists
		sleep(time.Hour)
		if n := inf.Status().Lists; n != before {
			t.Errorf("%d lists in an hour in which nothing is wrong", n-before)
		}
	})
}

// A teller is a source that lists what it is told to, and watches what comes from next.
type teller struct {
	list func() reply
	next chan lw.WatchEvent[*Widget]
}

func (s *teller) List(_ context.Context, _ metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	r := s.list()
	for _, w := range r.obj {
		if err := yield(w, nil); err != nil {
			return r.meta, err
		}
	}
	return r.meta, nil
}

func (s *teller) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	end := time.After(time.Duration(*opts.TimeoutSeconds) * time.Second)
	for {
		select {
		case ev := <-s.next:
			if err := yield(ev); err != nil {
				return err
			}
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
