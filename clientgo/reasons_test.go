package clientgo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/board"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwdebug"
)

// A reasonsBench is a server of pods, an informer of it, and a queue that knows reasons.
type reasonsBench struct {
	*testing.T
	server *lw.Memory[*corev1.Pod]
	inf    *lw.Informer[*corev1.Pod]
	board  lw.Board
	queue  *clientgo.ReasonsQueue[lw.Key]
}

func newReasonsBench(t *testing.T, pods ...*corev1.Pod) *reasonsBench {
	b := &reasonsBench{T: t, server: lw.NewMemory(pods...)}
	b.inf = lw.NewInformer(b.server, &lw.Options{Name: "Pod"})
	b.queue = clientgo.Reasons(newLimited(), &clientgo.ReasonsOptions{Name: "pods", Board: &b.board})
	t.Cleanup(b.queue.ShutDown)
	return b
}

// enqueueing returns one whose informer runs, and enqueues the keys of what it is told.
func enqueueing(t *testing.T, pods ...*corev1.Pod) *reasonsBench {
	b := newReasonsBench(t, pods...)
	b.inf.AddHandler(clientgo.Enqueue[*corev1.Pod](b.queue))
	rig.Start(t, b.inf)
	return b
}

// newLimited returns a queue whose rate is a key a second.
func newLimited() workqueue.TypedRateLimitingInterface[lw.Key] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[lw.Key](time.Second, time.Second))
}

// reasons takes the next key, runs for it, and returns why. f, if there is one, is the run.
func (b *reasonsBench) reasons(f ...func(key lw.Key)) []string {
	b.Helper()
	synctest.Wait()
	if b.queue.Len() == 0 {
		b.Fatal("no key waits")
	}
	key, _ := b.queue.Get()
	texts := []string{}
	for _, r := range b.queue.Of(key) {
		texts = append(texts, r.String())
	}
	for _, f := range f {
		f(key)
	}
	b.queue.Done(key)
	synctest.Wait()
	return texts
}

func (b *reasonsBench) want(want ...string) {
	b.Helper()
	rig.Same(b, "reasons", append([]string{}, want...), b.reasons())
}

// write creates or updates p.
func (b *reasonsBench) write(p *corev1.Pod) {
	b.Helper()
	_, err := b.server.Update(b.Context(), p)
	if err != nil {
		_, err = b.server.Create(b.Context(), p)
	}
	rig.OK(b, err)
	synctest.Wait()
}

func (b *reasonsBench) delete(name string) {
	b.Helper()
	rig.Must[string](b)(b.server.Delete(b.Context(), lw.Key{Namespace: "ns", Name: name}, ""))
	synctest.Wait()
}

// by has p say that manager has just written fields, in the form of managed fields.
func by(p *corev1.Pod, manager, fields string) *corev1.Pod {
	now := metav1.Now()
	p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &now, FieldsV1: metav1.NewFieldsV1(fields),
	})
	return p
}

func withPhase(p *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
	p.Status.Phase = phase
	return p
}

// What a key runs for is the net change since it ran last, whoever has added it.
func TestReasonsOfChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		after func(b *reasonsBench) // since the run for the first list
		want  []string
	}{
		"update": {
			func(b *reasonsBench) { b.write(withPhase(labelled("a"), "Running")) }, []string{"Pod ns/a updated (watch): status.phase"},
		},
		"fields and their writers": {func(b *reasonsBench) {
			p := labelled("a", "example.com/tier=db")
			p.Spec.Containers = []corev1.Container{{Name: "web", Image: "v2"}}
			by(p, "helm", `{"f:metadata":{"f:labels":{"f:example.com/tier":{}}}}`)
			b.write(by(p, "kubectl", `{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}}}}}`))
			p = p.DeepCopy()
			p.Spec.Containers[0].Image = "v3"
			b.write(p)
		}, []string{"Pod ns/a updated (watch): metadata.labels.example.com/tier by helm, spec.containers by kubectl"}},
		"one element of a list": {func(b *reasonsBench) {
			p := labelled("a")
			p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "False"}, {Type: "Initialized", Status: "True"}}
			b.write(p)
			b.reasons()
			p = p.DeepCopy()
			p.Status.Conditions = []corev1.PodCondition{{Type: "Initialized", Status: "True"}, {Type: "Ready", Status: "True"}}
			b.write(by(p, "kubelet", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{}}}}}`))
		}, []string{"Pod ns/a updated (watch): status.conditions[Ready].status by kubelet"}},
		"more than eight fields": {func(b *reasonsBench) {
			b.write(labelled("a", "1=", "2=", "3=", "4=", "5=", "6=", "7=", "8=", "9="))
		}, []string{"Pod ns/a updated (watch): metadata.labels.1, metadata.labels.2, metadata.labels.3, metadata.labels.4, metadata.labels.5, metadata.labels.6, metadata.labels.7, metadata.labels.8, …"}},
		"deletion": {func(b *reasonsBench) { b.delete("a") }, []string{"Pod ns/a deleted (watch)"}},
		"update and deletion": {
			func(b *reasonsBench) { b.write(withPhase(labelled("a"), "Running")); b.delete("a") }, []string{"Pod ns/a deleted (watch)"},
		},
		"creation and update": {
			func(b *reasonsBench) { b.write(labelled("b")); b.write(withPhase(labelled("b"), "Running")) }, []string{"Pod ns/b added (watch)"},
		},
		"creation and deletion": {
			func(b *reasonsBench) { b.write(labelled("b")); b.delete("b") }, []string{"Pod ns/b: no net change (watch)"},
		},
		"an update that is taken back": {func(b *reasonsBench) {
			b.write(withPhase(labelled("a"), "Running"))
			b.write(labelled("a"))
		}, []string{"Pod ns/a: no net change (watch)"}},
		"deletion and creation": {func(b *reasonsBench) {
			b.delete("a")
			p := withPhase(labelled("a"), "Running")
			p.UID = "other"
			b.write(p)
		}, []string{"Pod ns/a updated (watch): metadata.uid, status.phase"}},
		"told": {func(b *reasonsBench) {
			p := withPhase(labelled("a"), "Running")
			p.UID, p.ResourceVersion = b.inf.Store().List()[0].UID, "1000"
			rig.OK(b, b.inf.Tell(p))
			synctest.Wait()
		}, []string{"Pod ns/a updated (told): status.phase"}},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			b := enqueueing(t, labelled("a"))
			b.want("Pod ns/a added (initial)")
			tc.after(b)
			b.want(tc.want...)
		})
	}
}

// What is added without a change says so, at the time when it comes.
func TestReasonsOfRequeues(t *testing.T) {
	key := lw.Key{Namespace: "ns", Name: "a"}
	for name, tc := range map[string]struct {
		run  func(b *reasonsBench) // the run for the first list
		then func(b *reasonsBench)
		want [][]string
	}{
		"by the program":       {nil, func(b *reasonsBench) { b.queue.Add(key) }, [][]string{{"added"}}},
		"by the run itself":    {func(b *reasonsBench) { b.queue.Add(key) }, nil, [][]string{{"added"}}},
		"by a goroutine of it": {nil, func(b *reasonsBench) { go b.queue.Add(key); synctest.Wait() }, [][]string{{"added"}}},
		"after a while":        {func(b *reasonsBench) { b.queue.AddAfter(key, time.Minute) }, func(*reasonsBench) { time.Sleep(time.Minute) }, [][]string{{"added after 1m0s"}}},
		"the earliest of two":  {func(b *reasonsBench) { b.queue.AddAfter(key, time.Hour); b.queue.AddAfter(key, time.Minute) }, func(*reasonsBench) { time.Sleep(time.Minute) }, [][]string{{"added after 1m0s"}}},
		"at its rate":          {func(b *reasonsBench) { b.queue.AddRateLimited(key) }, func(*reasonsBench) { time.Sleep(time.Second) }, [][]string{{"added at its rate"}}},
		"after an error":       {func(b *reasonsBench) { b.queue.Failed(key, errors.New("no quota")); b.queue.AddRateLimited(key) }, func(*reasonsBench) { time.Sleep(time.Second) }, [][]string{{"added after an error: no quota"}}},
		"no error at last": {func(b *reasonsBench) {
			b.queue.Failed(key, errors.New("x"))
			b.queue.Failed(key, nil)
			b.queue.AddRateLimited(key)
		}, func(*reasonsBench) { time.Sleep(time.Second) }, [][]string{{"added at its rate"}}},
		"a change comes earlier": {
			func(b *reasonsBench) { b.queue.AddAfter(key, time.Minute) },
			func(b *reasonsBench) { b.write(withPhase(labelled("a"), "Running")) },
			[][]string{{"Pod ns/a updated (watch): status.phase"}, {"added after 1m0s"}},
		},
		"a change comes before the rate": {
			func(b *reasonsBench) { b.queue.AddRateLimited(key) },
			func(b *reasonsBench) { b.write(withPhase(labelled("a"), "Running")) },
			[][]string{{"Pod ns/a updated (watch): status.phase", "added at its rate"}, {"added at its rate"}},
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			b := enqueueing(t, labelled("a"))
			b.reasons(func(lw.Key) {
				if tc.run != nil {
					tc.run(b)
				}
			})
			if tc.then != nil {
				tc.then(b)
			}
			for _, want := range tc.want {
				b.want(want...)
				time.Sleep(time.Minute)
			}
		})
	}
}

// Of a key that runs for more objects than are named, the last reason counts the others.
func TestReasonsOfManyObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newReasonsBench(t)
		b.inf.AddHandler(clientgo.EnqueueMapped(b.queue, func(*corev1.Pod) iter.Seq[lw.Key] {
			return func(yield func(lw.Key) bool) { yield(lw.Key{Name: "all"}) }
		}))
		rig.Start(t, b.inf)
		for i := range 20 {
			b.write(labelled(fmt.Sprintf("p-%02d", i)))
		}
		key, _ := b.queue.Get()
		all := b.queue.Of(key)
		if last := all[len(all)-1]; len(all) != 17 || last.Requeue != clientgo.RequeueMore || last.Events != 4 {
			t.Errorf("%d reasons, the last: %v", len(all), last)
		}
		b.queue.Done(key)
	})
}

// Handlers of client-go's kind, of other collections and of several queues: each key has its own
// reasons, also while another handler hangs.
func TestReasonsOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newReasonsBench(t)
		other := clientgo.Reasons(newLimited(), nil)
		t.Cleanup(other.ShutDown)
		nodes := lw.NewMemory(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		nodeInf := lw.NewInformer(nodes, &lw.Options{Name: "Node"})
		nodeInf.AddHandler(clientgo.EnqueueMapped(b.queue, func(n *corev1.Node) iter.Seq[lw.Key] {
			return func(yield func(lw.Key) bool) { yield(lw.Key{Namespace: "ns", Name: "a"}) }
		}))
		release := make(chan struct{})
		b.inf.AddHandler(lw.Handler[*corev1.Pod]{Add: func(*corev1.Pod) { <-release }})
		shared := clientgo.SharedIndexInformer(b.inf)
		rig.Must[cache.ResourceEventHandlerRegistration](t)(shared.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			key := lw.KeyOf(obj.(*corev1.Pod))
			b.queue.Add(key)
			b.queue.Add(key)
			other.Add(key)
		}}))
		rig.Start(t, b.inf)
		rig.Start(t, nodeInf)
		b.want("Node n1 added (initial)")
		b.write(labelled("a"))
		b.queue.Add(lw.Key{Name: "mine"})
		nodes.Update(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "z"}}})
		b.want("Pod ns/a added (watch)", "Node n1 updated (watch): metadata.labels.zone")
		b.want("added")
		key, _ := other.Get()
		if got := other.Of(key); got.String() != "Pod ns/a added (watch)" || got[0].Events != 1 {
			t.Errorf("the other queue: %v", got)
		}
		rig.Same(t, "reasons of a key that does not run", nil, b.queue.Of(key))
		close(release)
	})
}

// A resync, and how late a key runs. The log attribute is one text for each reason.
func TestReasonsOfAResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newReasonsBench(t, labelled("a"))
		h := clientgo.Enqueue[*corev1.Pod](b.queue)
		h.Resync = time.Minute
		b.inf.AddHandler(h)
		rig.Start(t, b.inf)
		b.reasons()
		time.Sleep(time.Minute)
		b.want("Pod ns/a: no net change (resync)")
		b.write(withPhase(labelled("a"), "Running"))
		rig.Sleep(80 * time.Second)
		key, _ := b.queue.Get()
		got := b.queue.Of(key)
		if len(got) != 1 || got[0].Late != 80*time.Second || got[0].Cause != lw.CauseWatch || got[0].Events != 2 {
			t.Errorf("%+v", got)
		}
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("reconciling", "reasons", got)
		var record struct{ Reasons []string }
		rig.OK(t, json.Unmarshal(out.Bytes(), &record))
		want := []string{"Pod ns/a updated (watch): status.phase"}
		rig.Same(t, "", want, record.Reasons)
		rig.Same(t, "", any(want), got.MarshalLog())
		b.queue.Done(key)
	})
}

// loopsOf returns the loops that the board shows, as text.
func (b *reasonsBench) loopsOf() (texts []string) {
	b.Helper()
	var report board.Report
	rig.OK(b, json.Unmarshal([]byte(lwdebug.Var(&b.board).String()), &report))
	for _, c := range report.Controllers {
		for _, l := range c.Loops {
			texts = append(texts, fmt.Sprintf("%s: %s %s.%s by %s", l.Key, l.Kind, l.Name, l.Field, strings.Join(l.Managers, "+")))
		}
	}
	return texts
}

// A board shows a queue until it is shut down, in either way.
func TestReasonsLeaveTheBoard(t *testing.T) {
	for name, end := range map[string]func(*clientgo.ReasonsQueue[lw.Key]){
		"at once": (*clientgo.ReasonsQueue[lw.Key]).ShutDown, "when all is done": (*clientgo.ReasonsQueue[lw.Key]).ShutDownWithDrain,
	} {
		t.Run(name, func(t *testing.T) {
			var shown lw.Board
			queue := clientgo.Reasons(newLimited(), &clientgo.ReasonsOptions{Name: "pods", Board: &shown})
			for _, want := range []int{1, 0} {
				var report board.Report
				rig.OK(t, json.Unmarshal([]byte(lwdebug.Var(&shown).String()), &report))
				rig.Same(t, "queues", want, len(report.Controllers))
				end(queue)
			}
		})
	}
}

// A controller that writes the time into the status runs for its own writes, as in crossplane#7221.
// Within ten rounds the board names the key and the field, and when it ends, no more.
func TestLoopOfOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enqueueing(t, labelled("a"), labelled("quiet"))
		round := 0
		rewrite := func(key lw.Key) {
			if key.Name != "a" {
				return
			}
			time.Sleep(time.Second) // a run takes its time
			round++
			p := labelled("a")
			p.Status.Message, p.Status.Reason = fmt.Sprint("synced ", time.Now()), fmt.Sprint(round%2)
			if round > 3 {
				p.Status.Reason = "done"
			}
			b.write(by(p, "crossplane", `{"f:status":{"f:message":{},"f:reason":{}}}`))
		}
		b.reasons(rewrite)
		b.reasons(rewrite)
		for round < 10 {
			if got := b.loopsOf(); got != nil && round < 9 {
				t.Fatalf("round %d: %q", round, got)
			}
			b.reasons(rewrite)
		}
		b.reasons()
		rig.Same(t, "", []string{"ns/a: answers a.status.message by crossplane"}, b.loopsOf())
		b.queue.Add(lw.Key{Namespace: "ns", Name: "a"})
		b.reasons()
		rig.Same(t, "loops after the end", nil, b.loopsOf())
	})
}

// Two reconcilers fight for a label, as in kratix#743. The board names it and both, also for a
// queue that is not told of its own writes.
func TestLoopOfTwoWriters(t *testing.T) {
	for name, filter := range map[string]bool{"all events": false, "own writes are left out": true} {
		rig.Subtest(t, name, func(t *testing.T) {
			b := newReasonsBench(t, labelled("a"))
			b.inf.AddHandler(lw.Handler[*corev1.Pod]{
				Add: func(p *corev1.Pod) { b.queue.Add(lw.KeyOf(p)) },
				Update: func(_, p *corev1.Pod) {
					if !filter || p.Labels["owner"] != "promise" {
						b.queue.Add(lw.KeyOf(p))
					}
				},
			})
			rig.Start(t, b.inf)
			b.reasons()
			set := func(owner string) {
				b.write(by(labelled("a", "owner="+owner), owner, `{"f:metadata":{"f:labels":{"f:owner":{}}}}`))
				time.Sleep(20 * time.Second)
			}
			for range 10 {
				set("promise")
				if !filter {
					b.reasons()
				}
				set("resource")
				b.reasons()
			}
			rig.Same(t, "", []string{"ns/a: undo a.metadata.labels.owner by promise+resource"}, b.loopsOf())
			time.Sleep(11 * time.Minute)
			rig.Same(t, "loops long after", nil, b.loopsOf())
		})
	}
}

// What others write, what goes on step by step, and what is asked for, are no loops.
func TestNoLoops(t *testing.T) {
	phases := []corev1.PodPhase{"Pending", "Running"}
	for name, round := range map[string]func(b *reasonsBench, i int){
		"a heartbeat of somebody else": func(b *reasonsBench, i int) {
			b.write(by(withPhase(labelled("a"), phases[i%2]), "kubelet", `{"f:status":{"f:phase":{}}}`))
			b.reasons()
			time.Sleep(time.Second)
		},
		"a requeue that writes": func(b *reasonsBench, i int) {
			b.queue.AddAfter(lw.Key{Namespace: "ns", Name: "a"}, time.Minute)
			time.Sleep(time.Minute)
			b.reasons(func(lw.Key) { b.write(withPhase(labelled("a"), phases[i%2])) })
			b.reasons()
		},
		"steps": func(b *reasonsBench, i int) {
			p := labelled("a")
			p.Annotations = map[string]string{fmt.Sprint("step-", i): "done"}
			if i == 0 {
				b.write(p)
			}
			b.reasons(func(lw.Key) { b.write(by(p, "installer", `{"f:metadata":{"f:annotations":{}}}`)) })
		},
		"two writers of one value": func(b *reasonsBench, i int) {
			b.write(by(withPhase(labelled("a"), corev1.PodPhase(fmt.Sprint(i))), fmt.Sprint("writer-", i%2), `{"f:status":{"f:phase":{}}}`))
			b.reasons()
			time.Sleep(time.Second)
		},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			b := enqueueing(t, labelled("a"))
			b.reasons()
			for i := range 30 {
				round(b, i)
				rig.Same(t, fmt.Sprintf("round %d: loops", i), nil, b.loopsOf())
			}
		})
	}
}
