package clientgo_test

import (
	"bytes"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// BenchmarkReasons measures the way of an event from the bytes of a watch to the end of its key's
// run, without and with reasons, and when the run asks for them. The first comes first: what a
// queue with reasons turns on stays on. Without -run, tests have turned it on before.
func BenchmarkReasons(b *testing.B) {
	const objects = 1000
	for _, mode := range []string{"off", "on", "asked"} {
		b.Run(mode, func(b *testing.B) {
			events := modified(benchPods(b, objects, 1_000_000_000))
			client, written := podStream(benchPods(b, objects, 1))
			var queue workqueue.TypedRateLimitingInterface[lw.Key] = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[lw.Key]())
			of := func(lw.Key) clientgo.ReasonList { return nil }
			if mode != "off" {
				reasons := clientgo.Reasons(queue, nil)
				queue = reasons
				if mode == "asked" {
					of = reasons.Of
				}
			}
			defer queue.ShutDown()
			inf := lw.NewInformer(&lw.HTTP[*corev1.Pod]{URL: "https://server/api/v1/pods", Client: client, Accept: "application/json"}, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			inf.AddHandler(clientgo.Enqueue[*corev1.Pod](queue))
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			go inf.Run(ctx)
			ran := make(chan int, objects)
			go func() {
				for {
					key, shutdown := queue.Get()
					if shutdown {
						return
					}
					list := of(key)
					queue.Done(key)
					ran <- len(list)
				}
			}()
			for range objects {
				<-ran
			}
			b.ReportAllocs()
			version, n := 2_000_000_000, 0
			for b.Loop() {
				i := n % objects
				n++
				version++
				renumber(events[i], version)
				at := bytes.Index(events[i], []byte(`"phase":"`)) + len(`"phase":"`)
				copy(events[i][at:], []string{"Running", "Pending"}[n/objects%2])
				rig.Must[int](b)(written.Write(events[i]))
				if got := <-ran; mode == "asked" && got != 1 {
					b.Fatalf("%d reasons", got)
				}
			}
		})
	}
}
