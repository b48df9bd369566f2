package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// lacks reports which of some words a text lacks.
func lacks(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, want := range words {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// fails runs a history that must fail, and returns its report.
func fails(t *testing.T, w World, plan string) string {
	t.Helper()
	s := begin(t, &w)
	r := s.once(plan, true)
	if r == nil {
		t.Fatalf("%q does not fail", plan)
	}
	return s.text(r)
}

// TestStory tells what Steps do by themselves, when a late answer arrives, and what is there before.
func TestStory(t *testing.T) {
	text := fails(t, World{
		Before: []string{one}, Start: manage(clean),
		Steps: func(w *W) {
			all := lwtest.Objects[*corev1.ConfigMap](w.Server, "configmaps")
			for m := range all.All() {
				m.Data["want"] = "b"
				if _, err := all.Update(m); err != nil {
					panic(err)
				}
			}
			w.Settle()
		},
		AtRest: func(s State) error {
			for _, obj := range s.Objects {
				if len(obj.GetAnnotations()) > 0 {
					return errors.New("another manager was here")
				}
			}
			return nil
		},
	}, "order 0; slow at 0; hold secrets at 1; foreign configmaps at 3")
	lacks(t, text, "THE WATCH OF secrets IS HELD", "a user, by w.Server, changes ConfigMap default/one",
		"THE LATE ANSWER to the program's create of secrets/default ARRIVES: 201", "1  a user applies ConfigMap default/one",
		"2  the program starts")
}

// TestCalmStory tells the story of a calm run that fails, also of one that ends its process.
func TestCalmStory(t *testing.T) {
	for name, c := range map[string]struct {
		w    World
		want []string
	}{
		"AtRest": {World{Start: manage(clean), Steps: steps, AtRest: func(s State) error {
			if len(s.Objects) > 1 {
				return errors.New("too much")
			}
			return nil
		}}, []string{"too much", "a user applies ConfigMap default/one", "create secrets/default"}},
		"a panic": {World{Steps: steps, Start: manage(func(c client.Client) reconcile.Func {
			return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
				go func() { panic("elsewhere") }()
				return nil
			})
		})}, []string{"elsewhere", "a user applies ConfigMap default/one"}},
		"no rest": {World{Steps: steps, Start: manage(func(c client.Client) reconcile.Func {
			return each(c, func(ctx context.Context, m *corev1.ConfigMap) error {
				for ctx.Err() == nil {
				}
				return nil
			})
		})}, []string{"does not settle", "a timer is never late", "a user applies ConfigMap default/one"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(was time.Duration) { hangs = was }(hangs)
			hangs = 3 * time.Second
			s := begin(t, &c.w)
			r := s.find()
			if r == nil {
				t.Fatal("nothing is wrong")
			}
			lacks(t, s.text(r), append(c.want, "This is the calm run")...)
		})
	}
}

// TestNoRest says what the last writes of an object change, and which step began it.
func TestNoRest(t *testing.T) {
	w := World{Start: manage(endless), Steps: func(w *W) { w.Apply(one) }}
	s := begin(t, &w)
	r := s.find()
	if r == nil || r.Failure.Oracle != "no rest" {
		t.Fatalf("it is %+v", r)
	}
	lacks(t, s.text(r), "the last changes of ConfigMap default/one", "- data.beat: x", "+ data.beat: xx",
		`it began with line 4, "a user applies ConfigMap default/one"`)
}

// A panic in Reconcile, which controller-runtime recovers, is a failure.
func TestPanic(t *testing.T) {
	text := fails(t, World{Steps: steps, Start: manage(func(c client.Client) reconcile.Func {
		work := clean(c)
		return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			result, err := work(ctx, req)
			if err != nil {
				panic("a write has failed")
			}
			return result, err
		}
	})}, "order 0; refuse at 0")
	lacks(t, text, "simulate: panic", "a write has failed", "story_test.go")
	if strings.Contains(text, "\x00") {
		t.Errorf("the report is no text: %q", text)
	}
}

// A history that ends its process tells its own story, and not the calm run's before it.
func TestStoryOfAnEnd(t *testing.T) {
	text := fails(t, World{Steps: steps, Start: manage(func(c client.Client) reconcile.Func {
		work := clean(c)
		return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			if _, err := work(ctx, req); err != nil {
				go func() { panic("elsewhere") }()
				<-ctx.Done()
			}
			return ctrl.Result{}, nil
		}
	})}, "order 0; refuse at 0")
	lacks(t, text, "simulate: panic", "elsewhere", "   1  the program starts", "IS ANSWERED WITH 503")
	if n := strings.Count(text, "the program starts"); n != 1 {
		t.Errorf("the program starts %d times:\n%s", n, text)
	}
}

// expires writes into each ConfigMap when it is a minute old, and adds it again after what is left
// until then, be it nothing. log says what it logs each time.
func expires(log func(ctx context.Context)) func(ctx context.Context, c *rest.Config) error {
	return func(ctx context.Context, c *rest.Config) error {
		client := kubernetes.NewForConfigOrDie(c).CoreV1().ConfigMaps("default")
		queue := workqueue.NewTypedDelayingQueue[string]()
		informer := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(kubernetes.NewForConfigOrDie(c).CoreV1().RESTClient(), "configmaps", "default", fields.Everything()), &corev1.ConfigMap{}, 0, nil)
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { queue.Add(obj.(*corev1.ConfigMap).Name) }}); err != nil {
			return err
		}
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(ctx) })
		running.Go(func() {
			for {
				name, down := queue.Get()
				if down {
					return
				}
				log(ctx)
				obj, there, _ := informer.GetStore().GetByKey("default/" + name)
				if m, _ := obj.(*corev1.ConfigMap); there && m.Data["old"] == "" {
					if left := time.Until(m.CreationTimestamp.Add(time.Minute)); left >= 0 {
						queue.AddAfter(name, left)
					} else {
						m = m.DeepCopy()
						m.Data["old"] = "yes"
						_, _ = client.Update(ctx, m, metav1.UpdateOptions{})
					}
				}
				queue.Done(name)
			}
		})
		<-ctx.Done()
		queue.ShutDown()
		running.Wait()
		return nil
	}
}

// TestLateTimer runs a program that spins for as long as its timers are never late.
func TestLateTimer(t *testing.T) {
	hangs = 20 * time.Second
	defer func() { hangs = 60 * time.Second }()
	for name, log := range map[string]func(ctx context.Context){
		"klog":                 func(context.Context) { klog.V(4).InfoS("it looks") },
		"the context's":        func(ctx context.Context) { logr.FromContextOrDiscard(ctx).V(4).Info("it looks") },
		"controller-runtime's": func(ctx context.Context) { ctrl.Log.V(4).Info("it looks") },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, &World{Histories: 6, Without: []string{foreign}, Start: expires(log),
				Steps: func(w *W) { w.Apply(one) }})
			if r := s.find(); r != nil {
				t.Error(s.text(r))
			}
		})
	}
	t.Run("without a log", func(t *testing.T) {
		hangs = 3 * time.Second
		s := begin(t, &World{Start: expires(func(context.Context) {}), Steps: func(w *W) { w.Apply(one) }})
		r := s.find()
		if r == nil {
			t.Fatal("it does not spin")
		}
		lacks(t, s.text(r), "does not settle", "a timer is never late", "which is 0 then", "story_test.go")
	})
}

// What is left of the former histories of a program that leaks is not what keeps one from resting.
func TestRestless(t *testing.T) {
	w := &World{Start: manage(clean), Steps: steps}
	rig.OK(t, w.prepare())
	t.Setenv("GODEBUG", debugs)
	quiet()
	k := &worker{t: t, world: w, leaks: true}
	k.bubble(plan{}, 0)
	rig.Same(t, "what keeps a bubble from resting", "", restless())
}

// logsLate is clean, and each start of it logs an error long after it has ended.
func logsLate(ctx context.Context, c *rest.Config) error {
	log := logr.FromContextOrDiscard(ctx)
	context.AfterFunc(ctx, func() {
		time.Sleep(100 * time.Second)
		log.Error(errors.New("too late"), "it has ended")
	})
	return manage(clean)(ctx, c)
}

// TestLogOfTheDead takes no error of a start that has crashed for one of that which runs.
func TestLogOfTheDead(t *testing.T) {
	s := begin(t, &World{Start: logsLate, Steps: steps})
	if r := s.shrunk("order 0; crash-after at 3"); r != nil && r.Failure.Oracle == "an error at rest" {
		t.Error(s.text(r))
	}
}

// TestKnown goes on after alarms that are kept as known, and repeats those that are not.
func TestKnown(t *testing.T) {
	t.Chdir(t.TempDir())
	w := World{Start: manage(between), Steps: steps, Histories: 40}
	s := begin(t, &w)
	r := s.find()
	if r == nil {
		t.Fatal("nothing was found")
	}
	said := s.keep(r)
	files := rig.Must[[]string](t)(filepath.Glob("testdata/simulate/TestKnown/*"))
	if len(files) != 1 || !strings.Contains(said, files[0]) || !strings.Contains(said, knownLine) {
		t.Fatalf("it is kept in %q, and the report says: %s", files, said)
	}
	const subtest, left = "testdata/simulate/TestKnown/0", "testdata/simulate/TestKnown/00"
	rig.OK(t, os.Mkdir(subtest, 0o777))
	rig.OK(t, os.WriteFile(left, []byte("order 0; stale secrets at 1\n"), 0o666))
	const passes = "testdata/simulate/TestKnown/01"
	rig.OK(t, os.WriteFile(passes, []byte("order 0\n"), 0o666))
	w.Without = []string{stale}
	again := begin(t, &w)
	if r := again.find(); r == nil || again.result.Histories != 0 {
		t.Errorf("the history that is kept is not repeated first: %+v", r)
	}
	rig.OK(t, errors.Join(os.Remove(subtest), os.Remove(left), os.Remove(passes)))
	w.Without = nil
	// Each alarm becomes known, until the search goes to its end.
	for range 8 {
		rig.OK(t, os.WriteFile(files[0], []byte(r.Plan+"\n"+knownLine+" it is to be mended\n"), 0o666))
		s = begin(t, &w)
		if r = s.find(); r == nil {
			break
		}
		_ = s.keep(r)
		sum := rig.Must[[]string](t)(filepath.Glob("testdata/simulate/TestKnown/*"))
		for _, file := range sum {
			if b := rig.Must[[]byte](t)(os.ReadFile(file)); strings.HasPrefix(string(b), r.Plan+"\n") {
				files[0] = file
			}
		}
	}
	if r != nil || s.result.Histories != 40 || s.again == 0 || s.why != "" {
		t.Errorf("%d histories, %d known alarms, %q, and %+v", s.result.Histories, s.again, s.why, r)
	}
}

// TestWithout leaves out kinds of faults, by the World and by the flag.
func TestWithout(t *testing.T) {
	defer func(was string) { *withoutFlag = was }(*withoutFlag)
	*withoutFlag = "hold,cut, keep"
	s := begin(t, &World{Start: manage(clean), Steps: steps, Histories: 40, Without: []string{lose, slow}})
	if r := s.find(); r != nil {
		t.Fatal(s.text(r))
	}
	for _, what := range []string{"hold", "cut", "keep", lose, slow} {
		if n := s.result.Faults[what]; n > 0 {
			t.Errorf("%s has happened %d times", what, n)
		}
	}
	if s.result.Faults[conflict] == 0 {
		t.Errorf("the others have not happened: %v", s.result.Faults)
	}
}

// TestStopped says how far a search came that was stopped.
func TestStopped(t *testing.T) {
	s := begin(t, &World{Start: manage(clean), Steps: steps, Histories: 1 << 20})
	defer s.watchStop()()
	var once sync.Once
	s.world.Always = nil
	s.stopped = "interrupt"
	close(s.halt)
	once.Do(s.end)
	if r := s.find(); r != nil {
		t.Fatalf("it has failed: %+v", r)
	}
	lacks(t, s.why, "stopped by interrupt after 0 histories of 1048576")
}

// TestHeldForLong holds a watch and an answer for less than a minute, however long a user waits.
func TestHeldForLong(t *testing.T) {
	for _, plan := range []string{"order 0; hold secrets at 0", "order 0; slow at 0"} {
		s := begin(t, &World{Start: manage(clean), Steps: func(w *W) {
			w.Apply(one)
			w.Pass(61 * time.Minute)
			for obj := range lwtest.Objects[*corev1.ConfigMap](w.Server, "configmaps").All() {
				if obj.Data["made"] == "" {
					w.h.fail("AtRest", "an hour was not enough")
				}
			}
			if w.h.withheld() {
				w.h.fail("AtRest", "it is still held")
			}
		}})
		if r := s.shrunk(plan); r != nil {
			t.Error(s.text(r))
		}
	}
}

// TestDelete deletes as users do.
func TestDelete(t *testing.T) {
	for policy, want := range map[metav1.DeletionPropagation]string{"": "", metav1.DeletePropagationBackground: "",
		metav1.DeletePropagationForeground: "", metav1.DeletePropagationOrphan: "Secret one-child"} {
		t.Run(string(policy), func(t *testing.T) {
			steps := func(w *W) {
				w.Apply(one)
				w.Settle()
				if policy == "" {
					w.Delete(one)
				} else {
					w.Delete(one, policy)
				}
			}
			atRest := func(s State) error {
				got := ""
				for _, obj := range s.Objects {
					got += obj.GetKind() + " " + obj.GetName()
				}
				if got != want && !strings.Contains(got, "ConfigMap one") && got != "" {
					return fmt.Errorf("there is %q", got)
				}
				return nil
			}
			alive := func(c client.Client) reconcile.Func {
				work := clean(c)
				return func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
					m := &corev1.ConfigMap{}
					if err := c.Get(ctx, req.NamespacedName, m); err != nil || m.DeletionTimestamp != nil {
						return ctrl.Result{}, client.IgnoreNotFound(err)
					}
					return work(ctx, req)
				}
			}
			s := begin(t, &World{Start: manage(alive), Steps: steps, AtRest: atRest, Histories: 20})
			if r := s.find(); r != nil {
				t.Error(s.text(r))
			}
		})
	}
}

// named is an object of a state.
func named(kind, name, version string, data map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "data": data}}
	obj.SetNamespace("n")
	obj.SetName(name)
	obj.SetUID(types.UID(name))
	obj.SetResourceVersion(version)
	return obj
}

// TestChanges tells two states apart, by what is made, changed and removed.
func TestChanges(t *testing.T) {
	data := func(pairs ...any) map[string]any { return map[string]any{"same": "0", pairs[0].(string): pairs[1]} }
	was := State{Objects: []*unstructured.Unstructured{
		named("A", "stays", "1", nil), named("A", "changes", "2", data("old", "1")), named("A", "touched", "3", nil),
		named("A", "goes", "4", nil), named("A", "values", "5", data("of", "1")), named("A", "again", "6", nil)}}
	again := named("A", "again", "12", nil)
	again.SetUID("another")
	now := State{Objects: []*unstructured.Unstructured{
		named("A", "values", "11", data("of", "2")), named("A", "stays", "1", nil), named("A", "touched", "8", nil),
		named("A", "changes", "7", data("new", "2")), named("B", "comes", "9", nil), again}}
	now.Objects[4].SetNamespace("")
	w := &World{}
	var got []string
	for _, c := range changesOf(was, now) {
		got = append(got, c.name(), c.String(), w.describe(c))
	}
	want := []string{
		"A n/values", "changes A n/values, version 11", "    - data.of: 1\n    + data.of: 2",
		"A n/touched", "changes A n/touched, version 8", "    only its version",
		"A n/changes", "changes A n/changes, version 7", "    + data.new: 2\n    - data.old: 1",
		"B comes", "creates B comes, version 9", "    creates B comes, version 9",
		"A n/again", "creates A n/again, version 12", "    creates A n/again, version 12",
		"A n/goes", "removes A n/goes", "    removes A n/goes",
		"A n/again", "removes A n/again", "    removes A n/again",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLoop names what has changed most of late, and shows its last three changes.
func TestLoop(t *testing.T) {
	h := &history{world: &World{}, changes: 9}
	for n := range 14 {
		h.narrate("step %d", n+1)
	}
	text := "after 7 steps and 9 changes of the server the program still works; the last steps:\n"
	for n := 3; n <= 14; n++ {
		text += fmt.Sprintf("  step %d\n", n)
	}
	text = strings.TrimSuffix(text, "\n")
	rig.Same(t, "without changes", text, h.loop(7))
	for line, name := range []string{"a", "b", "a", "c", "a", "c", "a", "c"} {
		h.recent = append(h.recent, change{line: line + 1, now: named("A", name, fmt.Sprint(line+20), nil)})
	}
	h.began = 2
	text += "\nthe last changes of A n/a:"
	for _, line := range []int{3, 5, 7} {
		text += fmt.Sprintf("\n  in line %[1]d, by \"step %[1]d\":\n    creates A n/a, version %[2]d", line, line+19)
	}
	rig.Same(t, "with changes", text+"\nit began with line 2, \"step 2\"", h.loop(7))
	h.story, h.began, h.recent = h.story[:2], 0, h.recent[:2]
	rig.Same(t, "of few", "after 1 steps and 9 changes of the server the program still works; the last steps:\n  step 1\n  step 2"+
		"\nthe last changes of A n/b:\n  in line 2, by \"step 2\":\n    creates A n/b, version 21", h.loop(1))
}

// TestStreams knows which versions of Kubernetes stream lists.
func TestStreams(t *testing.T) {
	for version, want := range map[string]bool{"": true, "1.31": false, "1.32": true, "1.33": false, "1.34": true, "1.37": true,
		"2.34": false, "1.x": false} {
		rig.Same(t, version, want, (&World{Kubernetes: version}).streams())
	}
	rig.Same(t, "counts", "a 1, b 20", counts(map[string]int{"b": 20, "a": 1}))
	a, b := failure{Oracle: "x", Text: "version 12 of a"}, failure{Oracle: "x", Text: "version 345 of a"}
	rig.Same(t, "alarms that differ in numbers", a.alarm(), b.alarm())
	if b.Oracle = "y"; a.alarm() == b.alarm() {
		t.Error("the alarms of two oracles are one")
	}
	if b = (failure{Oracle: "x", Text: "version 12 of b"}); a.alarm() == b.alarm() {
		t.Error("two alarms are one")
	}
}

// TestListen tells the reports of a worker from all else that it prints.
func TestListen(t *testing.T) {
	line := func(r report) string { return mark + string(encode(r)) + "\n" }
	broken := &failure{"x", "why"}
	for name, tt := range map[string]struct {
		out    string
		plans  []string // of the reports, with the lines of their stories
		story  []string
		done   bool
		errors string
	}{
		"nothing":  {"", nil, nil, false, ""},
		"all else": {"a\n--- FAIL: TestX\npanic: no\n" + mark + "no JSON\nb", nil, nil, false, "--- FAIL: TestX\npanic: no\n"},
		"a story": {"\n" + line(report{Plan: "p", Begin: true}) + "\n" + line(report{Line: "1"}) + "x\n" + line(report{Line: "2"}),
			[]string{"p"}, []string{"1", "2"}, false, ""},
		"another one": {line(report{Line: "1"}) + line(report{Plan: "q", Begin: true}) + line(report{Line: "3"}) +
			line(report{Plan: "q", Failure: broken}), []string{"q", "q 3"}, []string{"3"}, true, ""},
		"a failure with a story": {line(report{Line: "1"}) + line(report{Plan: "q", Failure: broken, Story: []string{"own"}}),
			[]string{"q own"}, []string{"1"}, true, ""},
		"a known failure": {line(report{Plan: "q", Failure: broken, Known: true}), []string{"q"}, nil, false, ""},
		"done":            {line(report{Plan: "r"}) + line(report{Done: true}) + line(report{Plan: "s"}), []string{"r", "", "s"}, nil, true, ""},
	} {
		var plans []string
		var errors tail
		story, done := listen(strings.NewReader(tt.out), &errors, func(r report) {
			plans = append(plans, strings.TrimSpace(r.Plan+" "+strings.Join(r.Story, " ")))
		})
		rig.Same(t, name+": reports", tt.plans, plans)
		rig.Same(t, name+": story", tt.story, story)
		rig.Same(t, name+": done", tt.done, done)
		rig.Same(t, name+": errors", tt.errors, string(errors.b))
	}
	var errors tail
	for _, n := range []int{5000, 2000, 1} {
		rig.Same(t, "what a tail takes", n, rig.Must[int](t)(errors.Write([]byte(strings.Repeat("x", n-1)+"y"))))
	}
	rig.Same(t, "what it keeps", strings.Repeat("x", 4999)+"y"+strings.Repeat("x", 1000), string(errors.b))
	names := strings.NewReplacer("a-1", "A", "a-2", "A")
	if digest([]string{"makes a-1"}, names) != digest([]string{"makes a-2"}, names) ||
		digest([]string{"makes a-1"}, names) == digest([]string{"makes b"}, names) ||
		digest([]string{"a", "b"}, names) == digest([]string{"b", "a"}, names) ||
		digest([]string{"a", "b"}, names) == digest([]string{"ab"}, names) {
		t.Error("the digests do not tell two histories apart, or one from itself")
	}
}

// TestMiddle leaves out the middle of a long story.
func TestMiddle(t *testing.T) {
	told := func(from, to int) (out string) {
		for n := from; n <= to; n++ {
			out += fmt.Sprintf("%4d  line %d\n", n, n)
		}
		return out
	}
	for n, want := range map[int]string{
		90:  told(1, 90),
		91:  told(1, 30) + "      … 1 lines …\n" + told(32, 91),
		200: told(1, 30) + "      … 110 lines …\n" + told(141, 200),
	} {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprint("line ", i+1))
		}
		if diff := cmp.Diff(want, story(lines)); diff != "" {
			t.Errorf("%d lines (-want +got):\n%s", n, diff)
		}
	}
}

// TestNormal takes away what differs from run to run.
func TestNormal(t *testing.T) {
	const uid, other = "0b1c2d3e-0000-4000-8000-000000000001", "0b1c2d3e-0000-4000-8000-000000000002"
	w := begin(t, &World{Start: waits, Varies: []string{"configmaps.metadata.annotations", "pods.spec.containers"}}).world
	state := func(text string) State { return State{Objects: (&history{}).objects(text)} }
	for _, c := range []struct{ name, calm, here, want string }{
		{"a UID within a name", "kind: Secret\nmetadata: {name: a-" + uid + "}", "kind: Secret\nmetadata: {name: a-" +
			other + "}", ""},
		{"a UID within a member's name", "kind: Secret\ndata: {" + uid + ": a}", "kind: Secret\ndata: {" + other +
			": a}", ""},
		{"a version in a reference", "kind: Pod\nspec: {ref: {resourceVersion: '1'}}",
			"kind: Pod\nspec: {ref: {resourceVersion: '2'}}", ""},
		{"a field that varies, by an item of a list", "kind: Pod\nspec: {containers: [{name: a}]}",
			"kind: Pod\nspec: {containers: [{name: b}]}", ""},
		{"an item of a list by its name", "kind: Pod\nspec: {initContainers: [{name: a, image: x}, {name: b}]}",
			"kind: Pod\nspec: {initContainers: [{name: b}, {name: a, image: z}]}",
			"- Pod : spec.initContainers[a].image: x\n+ Pod : spec.initContainers[a].image: z"},
		{"a field that is there too", "kind: Secret\nmetadata: {name: a}", "kind: Secret\nmetadata: {name: a}\ntype: b",
			"+ Secret a: type: b"},
		{"a field that is missing", "kind: Secret\nmetadata: {name: a}\ntype: b", "kind: Secret\nmetadata: {name: a}",
			"- Secret a: type: b"},
		{"one more of a generated name", "kind: Secret\nmetadata: {name: a-bbbbb}\ntype: b",
			"kind: Secret\nmetadata: {name: a-ccccc}\ntype: a\n---\n" +
				"kind: Secret\nmetadata: {name: a-ddddd}\ntype: b", "+ Secret a-* is there too"},
		{"another value", "kind: Secret\ntype: a", "kind: Secret\ntype: b", "- Secret : type: a\n+ Secret : type: b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, w.difference(state(c.calm+"\n"), state(c.here+"\n"), nil)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
