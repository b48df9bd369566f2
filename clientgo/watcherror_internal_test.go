package clientgo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// A failed request after which there is a pause is told to the handler, as it is. One that is made
// again at once is only logged, and what is wrong with an object goes to client-go's ErrorHandlers.
// Nothing is told after the end of the context, and all that waits before that of the informer.
func TestErrorReporter(t *testing.T) {
	cause := errors.New("cause")
	for name, tc := range map[string]struct {
		err  error
		done bool // the context
		want string
	}{
		"a list":                   {&lw.Error{Op: "list", Failures: 1, Err: cause}, false, "handler"},
		"a stream":                 {&lw.Error{Op: "stream", Failures: 2, Err: cause}, false, "handler"},
		"a watch":                  {&lw.Error{Op: "watch", Failures: 1, Err: cause}, false, "handler"},
		"a watch that is resumed":  {&lw.Error{Op: "watch", Err: cause}, false, "log"},
		"a stream that is a list":  {&lw.Error{Op: "stream", Err: cause}, false, "log at 4"},
		"an object":                {&lw.Error{Op: "decode", Failures: 1, Err: cause}, false, "ErrorHandlers"},
		"wrapped":                  {fmt.Errorf("more: %w", &lw.Error{Op: "list", Failures: 1, Err: cause}), false, "handler"},
		"another error":            {cause, false, "ErrorHandlers"},
		"a list, after the end":    {&lw.Error{Op: "list", Failures: 1, Err: cause}, true, ""},
		"an object, after the end": {&lw.Error{Op: "decode", Err: cause}, true, ""},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			var got []string
			note := func(err error, to string) {
				if !errors.Is(err, cause) {
					t.Errorf("%s gets %v", to, err)
				}
				got = append(got, to)
			}
			rig.Swap(t, &utilruntime.ErrorHandlers, []utilruntime.ErrorHandler{func(_ context.Context, err error, _ string, _ ...any) { note(err, "ErrorHandlers") }})
			r := newErrorReporter(&corev1.Pod{}, "")
			r.handler = func(_ context.Context, of *cache.Reflector, err error) {
				if err != cause || of == nil {
					t.Errorf("the handler gets %#v of %v", err, of)
				}
				note(err, "handler")
			}
			var brief, all bytes.Buffer
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(4), textlogger.Output(&all)))))
			if tc.want == "log" {
				ctx = klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&brief))))
			}
			if tc.done {
				cancel()
			}
			end := r.run(ctx)
			for range 3 {
				r.report(tc.err)
			}
			end()
			cancel()
			for range strings.Count(brief.String(), "cause") {
				got = append(got, "log")
			}
			for range strings.Count(all.String(), "cause") {
				got = append(got, "log at 4")
			}
			var want []string
			if tc.want != "" {
				want = []string{tc.want, tc.want, tc.want}
			}
			rig.Same(t, "", want, got)
		})
	}
	// A streamed list that became a whole one is no news at the usual level.
	var book bytes.Buffer
	newErrorReporter(nil, "pods").handle(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&book)))), &lw.Error{Op: "stream", Err: cause})
	if book.Len() > 0 {
		t.Errorf("log: %s", &book)
	}
}

// A changed object crashes the program where it is found. A handler that panics crashes it as
// client-go's panics do: where that is off, later errors are told.
func TestErrorReporterPanics(t *testing.T) {
	changed := &lw.Error{Op: "mutation", Err: errors.New("changed")}
	func() {
		defer func() {
			if p := recover(); p != any(changed) {
				t.Errorf("panic %v", p)
			}
		}()
		newErrorReporter(nil, "").report(changed)
	}()
	rig.Swap(t, &utilruntime.ReallyCrash, false)
	var panics []any
	rig.Swap(t, &utilruntime.PanicHandlers, []func(context.Context, any){func(_ context.Context, v any) { panics = append(panics, v) }})
	r := newErrorReporter(nil, "")
	r.handler = func(_ context.Context, _ *cache.Reflector, err error) { panic(err.Error()) }
	end := r.run(t.Context())
	for _, text := range []string{"one", "two"} {
		r.report(&lw.Error{Op: "list", Failures: 1, Err: errors.New(text)})
	}
	end()
	rig.Same(t, "panics", []any{"one", "two"}, panics)
}

// A streamed list that fails in the client is told as a bad request, so that lw lists at once. What
// the server or the network says stays what it is, and so does the failure of another watch.
func TestNoStreamError(t *testing.T) {
	yes, no := true, false
	for name, tc := range map[string]struct {
		err    error
		stream *bool
		want   bool
	}{
		"the client, streamed":      {errors.New("not a number"), &yes, true},
		"the client, not streamed":  {errors.New("not a number"), &no, false},
		"the client, a plain watch": {errors.New("not a number"), nil, false},
		"the server":                {fmt.Errorf("watch: %w", apierrors.NewServiceUnavailable("down")), &yes, false},
		"the network":               {fmt.Errorf("watch: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), &yes, false},
		"EOF":                       {fmt.Errorf("watch: %w", io.EOF), &yes, false},
		"half an answer":            {fmt.Errorf("watch: %w", io.ErrUnexpectedEOF), &yes, false},
	} {
		src := SourceOf[*corev1.Pod](&cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, tc.err }})
		err := src.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: tc.stream}, func(lw.WatchEvent[*corev1.Pod]) error { return nil })
		if got := apierrors.IsBadRequest(err); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: a bad request %t, error %v", name, got, err)
		}
	}
}

// A request whose context ends for a reason fails with the reason, or with what it says itself soon
// after that. One that comes later is over for everybody, also if it has failed.
func TestRequestsAfterTheEnd(t *testing.T) {
	reason, own := errors.New("the reason"), errors.New("its own")
	for wait, want := range map[time.Duration]error{patience / 2: own, time.Minute: reason} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(reason)
			src := SourceOf[*corev1.Pod](&cache.ListWatch{
				ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { time.Sleep(wait); return nil, own },
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { time.Sleep(wait); return nil, own },
			})
			_, err := src.List(ctx, metav1.ListOptions{}, nil)
			if !errors.Is(err, want) {
				t.Errorf("a list after %v: %v, want %v", wait, err, want)
			}
			if err := src.Watch(ctx, metav1.ListOptions{}, nil); !errors.Is(err, want) {
				t.Errorf("a watch after %v: %v, want %v", wait, err, want)
			}
			time.Sleep(2 * wait)
		})
	}
}
