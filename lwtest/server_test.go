package lwtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// A Job is an API type, with the fields that matter here.
type Job struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int `json:"size"`
	} `json:"spec"`
	Status struct {
		Done int `json:"done"`
	} `json:"status"`
}

var jobs = lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job", Fields: []string{"spec.size"}}

// newJobs returns a server of jobs, and its collection.
func newJobs(t *testing.T) (*lwtest.Server, *lwtest.Collection[*Job]) {
	server := lwtest.NewServer(t, jobs)
	return server, lwtest.Objects[*Job](server, "jobs")
}

func newJob(key lw.Key, size int) *Job {
	j := &Job{}
	j.Namespace, j.Name, j.Spec.Size = key.Namespace, key.Name, size
	j.Labels = map[string]string{"even": map[bool]string{true: "yes", false: "no"}[size%2 == 0]}
	return j
}

func key(name string) lw.Key { return lw.Key{Namespace: "default", Name: name} }

// The source over HTTP keeps its promises, as does the server behind it.
func TestHTTP(t *testing.T) {
	lwtest.Source(t, func() lwtest.Subject[*Job] {
		server, c := newJobs(t)
		return lwtest.Subject[*Job]{
			Source:     func() lw.Source[*Job] { return c.Source() },
			Object:     newJob,
			Create:     c.Create,
			Update:     c.Update,
			Delete:     c.Delete,
			Compact:    server.Compact,
			Disconnect: func() { server.Cut() },
			Bookmark:   server.Bookmark,
			Close:      func() { server.Client().CloseIdleConnections() },
			Selectors: []lwtest.Selector[*Job]{
				{Labels: "even=yes", Matches: func(j *Job) bool { return j.Spec.Size%2 == 0 }},
				{Fields: "spec.size=1", Matches: func(j *Job) bool { return j.Spec.Size == 1 }},
			},
		}
	})
}

// A task is a Job by another name.
type task struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// What T is called does not matter: the source's objects are of the resource's kind.
func TestSourceOfAnotherName(t *testing.T) {
	c := lwtest.Objects[*task](lwtest.NewServer(t, jobs), "jobs")
	rig.Must[*task](t)(c.Create(&task{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
	told, _, err := rig.ListAll(t.Context(), c.Source(), metav1.ListOptions{})
	if err != nil || len(told.What) != 1 || told.Errs != nil {
		t.Errorf("%+v, error %v", told, err)
	}
}

// controller is one that has a bug where it does not follow the server: it notes each job's size in
// the status.
func controller(c *lwtest.Collection[*Job]) *lw.Informer[*Job] {
	inf := lw.NewInformer(c.Source(), &lw.Options{OnError: func(error) {}})
	work := func(j *Job) {
		if j.Status.Done == j.Spec.Size {
			return
		}
		done := *j
		done.Status.Done = j.Spec.Size
		if _, err := c.Update(&done); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			panic(err)
		}
	}
	inf.AddHandler(lw.Handler[*Job]{Add: work, Update: func(_, j *Job) { work(j) }})
	return inf
}

func TestOutages(t *testing.T) {
	for _, outage := range lwtest.Outages() {
		rig.Subtest(t, outage.Name, func(t *testing.T) {
			server, c := newJobs(t)
			must(t, c, "old", 1)
			rig.Start(t, controller(c))
			time.Sleep(time.Minute)

			before := len(server.Requests())
			outage.Do(server)
			synctest.Wait()
			must(t, c, "new", 2)
			must(t, c, "old", 3)
			time.Sleep(outage.Lasts / 2)
			must(t, c, "newer", 4)
			time.Sleep(outage.Lasts + 5*time.Minute)

			got := map[string]int{}
			for j := range c.All() {
				got[j.Name] = j.Status.Done
			}
			rig.Same(t, "done", map[string]int{"old": 3, "new": 2, "newer": 4}, got)
			if got := len(server.Requests()); got == before {
				t.Error("the outage has not been noticed")
			}
		})
	}
}

// must creates or updates a job.
func must(t *testing.T, c *lwtest.Collection[*Job], name string, size int) *Job {
	t.Helper()
	j, err := c.Get(key(name))
	if err != nil {
		j, err = c.Create(newJob(key(name), size))
	} else {
		j.Spec.Size = size
		j, err = c.Update(j)
	}
	rig.OK(t, err)
	return j
}

func TestCollection(t *testing.T) {
	server, c := newJobs(t)
	j := must(t, c, "a", 1)
	if j.UID == "" || j.ResourceVersion != server.ResourceVersion() || j.Kind != "" {
		t.Errorf("created %+v at %s", j, server.ResourceVersion())
	}
	if _, err := c.Create(newJob(key("a"), 1)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("Create again: %v", err)
	}
	must(t, c, "a", 2)
	if _, err := c.Update(j); !apierrors.IsConflict(err) {
		t.Errorf("Update of an old version: %v", err)
	}
	must(t, c, "b", 3)
	rig.OK(t, c.Delete(key("a")))
	if err := c.Delete(key("a")); !apierrors.IsNotFound(err) {
		t.Errorf("Delete again: %v", err)
	}
	if _, err := c.Get(key("a")); !apierrors.IsNotFound(err) {
		t.Errorf("Get of what is gone: %v", err)
	}
	var names []string
	for j := range c.All() {
		names = append(names, j.Name)
	}
	rig.Same(t, "All", []string{"b"}, names)
	rig.OK(t, server.Restore(1))
	if _, err := c.Get(key("a")); err != nil {
		t.Errorf("Get from the backup: %v", err)
	}
	rig.MustPanic(t, "v1.Object is no pointer to a struct", func() { lwtest.Objects[metav1.Object](server, "jobs") })
}

func TestFaults(t *testing.T) {
	// What a list comes to under each.
	for name, tc := range map[string]struct {
		fault lwtest.Fault
		want  string
	}{
		"none": {lwtest.Fault{Verb: lwtest.Watch, Effect: lwtest.Hang()}, "2 objects"},
		"fail": {lwtest.Fault{Verb: lwtest.List, Effect: lwtest.Fail(apierrors.NewTooManyRequests("later", 7))},
			"429 after 7s"},
		"another resource": {lwtest.Fault{Plural: "pods", Effect: lwtest.Hang()}, "2 objects"},
		"another request": {lwtest.Fault{
			Match: func(r lwtest.Request) bool { return r.Options.Limit > 0 }, Effect: lwtest.Hang(),
		}, "2 objects"},
		"skipped": {lwtest.Fault{Skip: 1, Effect: lwtest.Hang()}, "2 objects"},
		"a proxy": {lwtest.Fault{Effect: lwtest.Reply(502, "text/html", "<html>")}, "502"},
		"reset":   {lwtest.Fault{Effect: lwtest.Reset()}, "an error"},
		"hang":    {lwtest.Fault{Effect: lwtest.Hang()}, "no answer after 10s"},
		"delay":   {lwtest.Fault{Effect: lwtest.Delay(2 * time.Second)}, "2 objects after 2s"},
		"slow":    {lwtest.Fault{Effect: lwtest.Slow(2 * time.Second)}, "2 objects after 4s"},
		"cut":     {lwtest.Fault{Effect: lwtest.CutAfter(1)}, "an error"},
		"break":   {lwtest.Fault{Effect: lwtest.BreakAfter(1)}, "an error"},
		"stall":   {lwtest.Fault{Effect: lwtest.StallAfter(1)}, "no answer after 10s"},
		"spoiled": {lwtest.Fault{Effect: lwtest.Spoil(1, "spec.size", `"big"`)}, "1 objects and default/b"},
		"lost":    {lwtest.Fault{Effect: lwtest.Lose(0)}, "1 objects"},
		"twice":   {lwtest.Fault{Effect: lwtest.Twice(0)}, "3 objects"},
		"nothing": {lwtest.Fault{}, "2 objects"},
		"all": {lwtest.Fault{Effect: lwtest.All(
			lwtest.Delay(time.Second), lwtest.Effect{}, lwtest.Slow(2*time.Second), lwtest.CutIn(0), lwtest.Trail(time.Hour),
		)}, "2 objects after 5s"},
		"chosen": {lwtest.Fault{Effect: lwtest.Choose(func(r lwtest.Request) lwtest.Effect {
			if r.Plural == "jobs" && r.UserAgent != "" && r.Username == "" {
				return lwtest.Delay(3 * time.Second)
			}
			return lwtest.Effect{}
		})}, "2 objects after 3s"},
		"not chosen": {lwtest.Fault{Effect: lwtest.Choose(func(lwtest.Request) lwtest.Effect { return lwtest.Effect{} })},
			"2 objects"},
		"not for long": {lwtest.Fault{Times: 2, Effect: lwtest.Lag(1)}, "2 objects"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			server, c := newJobs(t)
			must(t, c, "a", 1)
			must(t, c, "b", 2)
			server.Inject(tc.fault)
			rig.Same(t, "a list", tc.want, listed(t, c.Source()))
			server.Clear()
			rig.Same(t, "faults after Clear", 0, server.Armed())
			rig.Same(t, "a list after Clear", "2 objects", listed(t, c.Source()))
		})
	}
}

// What a watch is told, and when, under each fault. Two objects come after two seconds.
func TestFaultsOfWatches(t *testing.T) {
	for name, tc := range map[string]struct {
		effect lwtest.Effect
		want   string
	}{
		"none":             {lwtest.Effect{}, "2s a, 2s b, 10s nil"},
		"slow":             {lwtest.Slow(3 * time.Second), "5s a, 8s b, 10s nil"},
		"trail":            {lwtest.Trail(3 * time.Second), "5s a, 5s b, 13s nil"},
		"cut in time":      {lwtest.CutIn(time.Second), "1s nil"},
		"broken in time":   {lwtest.BreakIn(3 * time.Second), "2s a, 2s b, 3s unexpected EOF"},
		"expired in time":  {lwtest.ErrorIn(3*time.Second, apierrors.NewResourceExpired("old")), "2s a, 2s b, 3s Expired"},
		"expired at once":  {lwtest.ErrorIn(0, apierrors.NewResourceExpired("old")), "0s Expired"},
		"cut while behind": {lwtest.All(lwtest.Trail(3*time.Second), lwtest.CutIn(4*time.Second)), "4s nil"},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			server, c := newJobs(t)
			server.Inject(lwtest.Fault{Verb: lwtest.Watch, Effect: tc.effect})
			began, seconds := time.Now(), int64(10)
			time.AfterFunc(2*time.Second, func() {
				must(t, c, "a", 1)
				must(t, c, "b", 2)
			})
			var got []string
			say := func(what string) { got = append(got, time.Since(began).String()+" "+what) }
			err := c.Source().Watch(t.Context(), metav1.ListOptions{ResourceVersion: server.ResourceVersion(), TimeoutSeconds: &seconds},
				func(ev lw.WatchEvent[*Job]) error { say(ev.Object.Name); return nil })
			switch {
			case err == nil:
				say("nil")
			case errors.Is(err, io.ErrUnexpectedEOF):
				say("unexpected EOF")
			default:
				say(string(apierrors.ReasonForError(err)))
			}
			rig.Same(t, "the watch", tc.want, strings.Join(got, ", "))
			time.Sleep(3 * time.Second)
		})
	}
}

// listed says what a list comes to.
func listed(t *testing.T, src lw.Source[*Job]) string {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began, also := time.Now(), ""
	told, _, err := rig.ListAll(ctx, src, metav1.ListOptions{})
	for _, err := range told.Errs {
		also = " and " + err.(*lw.Error).Key.String()
	}
	took := ""
	if d := time.Since(began); d > 0 {
		took = " after " + d.String()
	}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return fmt.Sprint(len(told.What), " objects", also, took)
	case errors.As(err, &status):
		if d := status.Status().Details; d != nil && d.RetryAfterSeconds > 0 {
			took = fmt.Sprintf(" after %ds", d.RetryAfterSeconds)
		}
		return fmt.Sprint(status.Status().Code, took)
	case ctx.Err() != nil:
		return "no answer" + took
	}
	return "an error"
}

// A program without a testing.TB starts a server and closes it; one that is closed answers nobody.
func TestStartServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.StartServer(jobs)
		c := lwtest.Objects[*Job](server, "jobs")
		must(t, c, "a", 1)
		watched := make(chan error)
		go func() {
			watched <- c.Source().Watch(t.Context(), metav1.ListOptions{}, func(lw.WatchEvent[*Job]) error { return nil })
		}()
		synctest.Wait()
		for _, outage := range lwtest.Outages() {
			outage.Do(server) // timers are left, which Close has to end
		}
		server.Close()
		server.Close()
		if err := <-watched; err == nil {
			t.Error("the watch has ended without an error")
		}
		if _, _, err := rig.ListAll(t.Context(), c.Source(), metav1.ListOptions{}); err == nil {
			t.Error("a closed server has answered")
		}
	})
}

// Clients see for a while that a Pod is deleted, which is gone at once.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := jobs
		pods.Grace, pods.Linger = true, time.Second
		server := lwtest.NewServer(t, pods)
		c := lwtest.Objects[*Job](server, "jobs")
		must(t, c, "a", 1)
		begin := time.Now()
		var got []string
		go func() {
			_ = c.Source().Watch(t.Context(), metav1.ListOptions{}, func(e lw.WatchEvent[*Job]) error {
				got = append(got, fmt.Sprint(e.Type, " after ", time.Since(begin), ", marked: ", e.Object.DeletionTimestamp != nil))
				return nil
			})
		}()
		synctest.Wait()
		req := rig.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodDelete, c.URL("default")+"/a", nil))
		resp := rig.Must[*http.Response](t)(server.Client().Do(req))
		resp.Body.Close()
		synctest.Wait()
		want := []string{"ADDED after 0s, marked: false", "MODIFIED after 0s, marked: true", "DELETED after 1s, marked: true"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// What a client that is no lwtest.Collection meets: finalizers, and a status of its own.
func TestFinalizersAndStatus(t *testing.T) {
	withStatus := jobs
	withStatus.Status = true
	server := lwtest.NewServer(t, withStatus)
	c := lwtest.Objects[*Job](server, "jobs")
	j := newJob(key("a"), 1)
	j.Finalizers = []string{"example.com/held"}
	j = rig.Must[*Job](t)(c.Create(j))
	put := func(path string, size, done int) *Job {
		t.Helper()
		j.Spec.Size, j.Status.Done = size, done
		body := rig.Must[[]byte](t)(json.Marshal(j))
		req := rig.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPut, c.URL("default")+"/a"+path,
			bytes.NewReader(body)))
		resp := rig.Must[*http.Response](t)(server.Client().Do(req))
		defer resp.Body.Close()
		var got Job
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 200 {
			t.Fatalf("PUT: %s, %v", resp.Status, err)
		}
		j.ResourceVersion = got.ResourceVersion
		return &got
	}
	if got := put("", 2, 7); got.Spec.Size != 2 || got.Status.Done != 0 {
		t.Errorf("the object was written: %+v", got)
	}
	if got := put("/status", 3, 7); got.Spec.Size != 2 || got.Status.Done != 7 {
		t.Errorf("the status was written: %+v", got)
	}
	if r := server.Requests(lwtest.Update); len(r) != 2 || r[0].Subresource != "" || r[1].Subresource != "status" {
		t.Errorf("requests: %+v", r)
	}
	rig.OK(t, c.Delete(key("a")))
	if got, err := c.Get(key("a")); err != nil || got.DeletionTimestamp.IsZero() {
		t.Errorf("deleted: %+v, %v", got, err)
	}
	j.ResourceVersion, j.Finalizers = "", nil
	put("", 2, 7)
	if _, err := c.Get(key("a")); !apierrors.IsNotFound(err) {
		t.Errorf("Get without its finalizer: %v", err)
	}
}

// An informer of a resource that goes and comes back sees the deletions, the 404 and the new
// objects.
func TestSetServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := newJobs(t)
		old := must(t, c, "a", 1)
		inf := lw.NewInformer(c.Source(), &lw.Options{OnError: func(error) {}})
		var told []string
		inf.AddHandler(lw.Handler[*Job]{
			Add:    func(j *Job) { told = append(told, "add "+string(j.UID)) },
			Delete: func(j *Job) { told = append(told, "delete "+string(j.UID)) },
		})
		stop := rig.Begin(t, inf)
		time.Sleep(time.Minute)

		server.SetServed("jobs", false)
		time.Sleep(time.Minute)
		if s := inf.Status(); inf.Store().Len() != 0 || !apierrors.IsNotFound(errors.Unwrap(s.Err)) {
			t.Errorf("not served: %d objects, %v", inf.Store().Len(), s.Err)
		}
		server.SetServed("jobs", true)
		again := must(t, c, "a", 1)
		time.Sleep(5 * time.Minute)
		want := []string{"add " + string(old.UID), "delete " + string(old.UID), "add " + string(again.UID)}
		stop()
		rig.Same(t, "told", want, told)
	})
}

func TestListen(t *testing.T) {
	server, c := newJobs(t)
	must(t, c, "a", 1)
	url := rig.Must[string](t)(server.Listen())
	resp := rig.Must[*http.Response](t)(http.Get(url + "/apis/example.com/v1/namespaces/default/jobs/a"))
	defer resp.Body.Close()
	rig.Same(t, "GET", "200 OK", resp.Status)
	got := server.Requests()
	if len(got) != 1 || got[0].Verb != lwtest.Get || got[0].Plural != "jobs" || got[0].Name != "a" ||
		got[0].Code != http.StatusOK {
		t.Errorf("requests: %+v", got)
	}
}

// Two resources of one plural are told apart by their groups, wherever a resource is named.
func TestResourcesOfOnePlural(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Group: "other.example", Plural: "jobs", Kind: "Job"}, jobs,
			lwtest.Resource{Plural: "jobs", Kind: "Job"})
		c := lwtest.Objects[*Job](server, "jobs.example.com")
		must(t, c, "a", 1)
		rig.Same(t, "URLs", []string{"http://apiserver/apis/example.com/v1/jobs",
			"http://apiserver/apis/other.example/v1/jobs", "http://apiserver/api/v1/jobs"},
			[]string{c.URL(""), lwtest.Objects[*Job](server, "jobs.other.example").URL(""),
				lwtest.Objects[*Job](server, "jobs").URL("")})
		get := func(path string) (code int) {
			resp := rig.Must[*http.Response](t)(server.Client().Get(server.URL() + path))
			rig.OK(t, resp.Body.Close())
			return resp.StatusCode
		}
		server.Inject(lwtest.Fault{Plural: "jobs.example.com", Times: 2,
			Effect: lwtest.Fail(apierrors.NewConflict(schema.GroupResource{}, "", nil))})
		server.SetServed("jobs.other.example", false)
		rig.Same(t, "codes", []int{409, 404, 200}, []int{get("/apis/example.com/v1/jobs"), get("/apis/other.example/v1/jobs"),
			get("/api/v1/jobs")})
		server.Inject(lwtest.Fault{Plural: "jobs", Effect: lwtest.Fail(apierrors.NewConflict(schema.GroupResource{},
			"", nil))})
		rig.Same(t, "armed", []int{409, 409}, []int{get("/apis/example.com/v1/jobs"), get("/apis/example.com/v1/jobs")})
		var groups []string
		for _, r := range server.Requests() {
			groups = append(groups, r.Group)
		}
		rig.Same(t, "groups", []string{"example.com", "", "example.com", "example.com"}, groups)
	})
}

// A server that goes on for long forgets what was long ago.
func TestHistoryIsBounded(t *testing.T) {
	server, c := newJobs(t)
	j := must(t, c, "a", 1)
	first := j.ResourceVersion
	for i := range 25_000 {
		j.Spec.Size, j.ResourceVersion = i+2, ""
		j = rig.Must[*Job](t)(c.Update(j))
	}
	rig.Same(t, "the version of the last write", j.ResourceVersion, server.ResourceVersion())
	resp := rig.Must[*http.Response](t)(server.Client().Get(c.URL("") + "?resourceVersionMatch=Exact&resourceVersion=" +
		first))
	rig.OK(t, resp.Body.Close())
	rig.Same(t, "a list of the beginning", http.StatusGone, resp.StatusCode)
}
