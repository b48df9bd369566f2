package lwtest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// A source of one's own is checked against the writes to what is behind it.
func ExampleSource() {
	test := func(t *testing.T) {
		lwtest.Source(t, func() lwtest.Subject[*Widget] {
			m := lw.NewMemory[*Widget]() // and a source over it, such as a proxy's
			return lwtest.Subject[*Widget]{
				Source: func() lw.Source[*Widget] { return m },
				Object: func(key lw.Key, n int) *Widget {
					return &Widget{Meta: lw.Meta{Namespace: key.Namespace, Name: key.Name}, Size: n}
				},
				Create:  func(w *Widget) (*Widget, error) { return m.Create(t.Context(), w) },
				Update:  func(w *Widget) (*Widget, error) { return m.Update(t.Context(), w) },
				Delete:  func(key lw.Key) error { _, err := m.Delete(t.Context(), key, ""); return err },
				Compact: m.Compact,
			}
		})
	}
	_ = test // func TestInventory(t *testing.T)
}

// A controller survives what it is put through in the time of a bubble.
func ExampleServer() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
			jobs := lwtest.Objects[*Job](server, "jobs")
			inf := lw.NewInformer(jobs.Source(), &lw.Options{OnError: func(error) {}})
			go inf.Run(t.Context())

			server.Inject(lwtest.Fault{Verb: lwtest.List, Times: 3, Effect: lwtest.Fail(apierrors.NewUnauthorized("the token has expired"))})
			job, err := jobs.Create(newJob(key("a"), 1))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if _, ok := inf.Store().Get(lw.KeyOf(job)); !ok {
				t.Error("the job is not in the cache ten minutes later")
			}
		})
	}
	_ = test // func TestJobs(t *testing.T)
}

// A demonstration has a server without a test.
func ExampleStartServer() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
	defer server.Close()
	jobs := lwtest.Objects[*Job](server, "jobs")
	job, err := jobs.Create(newJob(key("a"), 1))
	if err != nil {
		fmt.Println(err)
		return
	}

	inf := lw.NewInformer(jobs.Source(), nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- inf.Run(ctx) }()
	err = inf.WaitForResourceVersion(ctx, job.ResourceVersion)
	cancel()
	fmt.Println(inf.Store().Len(), "job,", err, "and", <-ended)
	// Output: 1 job, <nil> and <nil>
}

// A server can also be had without a bubble, and asked what it was asked.
func ExampleServer_Requests() {
	t := &exampleT{} // the test's own t
	defer t.end()
	server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
	jobs := lwtest.Objects[*Job](server, "jobs")
	if _, err := jobs.Create(newJob(key("a"), 1)); err != nil {
		fmt.Println(err)
	}

	server.Inject(lwtest.Fault{Verb: lwtest.List, Effect: lwtest.Fail(apierrors.NewTooManyRequests("later", 1))})
	for range 2 {
		_, err := jobs.Source().List(context.Background(), metav1.ListOptions{Limit: 500}, func(j *Job, err error) error {
			fmt.Println("listed", j.Name)
			return err
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	for _, r := range server.Requests() {
		fmt.Println(r.Verb, r.Plural, r.Options.Limit, r.Code)
	}
	// Output:
	// lw: HTTP: http://apiserver/apis/example.com/v1/jobs: later
	// listed a
	// list jobs 500 429
	// list jobs 500 200
}

// exampleT is what of a testing.TB a server needs.
type exampleT struct {
	testing.TB
	cleanup func()
}

func (t *exampleT) Cleanup(f func()) { t.cleanup = f }
func (t *exampleT) end()             { t.cleanup() }

// A write is done and its answer is lost, as when a connection breaks at the wrong moment: the
// client tries again, and must not take what is there for somebody else's.
func ExampleWritten() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
	defer server.Close()
	server.Inject(lwtest.Fault{Verb: lwtest.Create, Effect: lwtest.Written(lwtest.Reset())})
	url := lwtest.Objects[*Job](server, "jobs").URL("default")
	for range 2 {
		resp, err := server.Client().Post(url, "application/json", strings.NewReader(`{"metadata":{"name":"a"}}`))
		if err != nil {
			fmt.Println("no answer")
			continue
		}
		fmt.Println(resp.Status)
		_ = resp.Body.Close()
	}
	// Output:
	// no answer
	// 409 Conflict
}

// A schedule gives each object the same fault, whatever the order of the requests.
func ExampleChoose() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
	defer server.Close()
	busy := apierrors.NewTooManyRequests("later", 1)
	server.Inject(lwtest.Fault{Verb: lwtest.Create, Times: -1, Effect: lwtest.Choose(func(r lwtest.Request) lwtest.Effect {
		switch name := r.Meta.Name; {
		case r.UserAgent != "program":
			return lwtest.Effect{}
		case name == "a":
			return lwtest.All(lwtest.Delay(time.Millisecond), lwtest.Fail(busy))
		case name == "b":
			return lwtest.Written(lwtest.Reset())
		}
		return lwtest.Effect{}
	})})
	url := lwtest.Objects[*Job](server, "jobs").URL("default")
	for _, name := range []string{"b", "a", "c"} {
		r, err := http.NewRequest("POST", url, strings.NewReader(`{"metadata":{"name":"`+name+`"}}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("User-Agent", "program")
		resp, err := server.Client().Do(r)
		if err != nil {
			fmt.Println(name, "no answer")
			continue
		}
		fmt.Println(name, resp.Status)
		_ = resp.Body.Close()
	}
	// Output:
	// b no answer
	// a 429 Too Many Requests
	// c 201 Created
}

// A cache that is a second behind shows what a controller does about its own writes, and a watch
// that breaks in time what it does about a gap.
func ExampleTrail() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
			server.Inject(lwtest.Fault{Verb: lwtest.Watch, Times: 3, Effect: lwtest.All(
				lwtest.Trail(time.Second), lwtest.BreakIn(time.Minute),
			)})
			// start the controller, and write what it acts on
		})
	}
	_ = test // func TestBehind(t *testing.T)
}

// A conflict comes of somebody else's write, which every watch sees.
func ExampleOvertake() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
	defer server.Close()
	jobs := lwtest.Objects[*Job](server, "jobs")
	job, err := jobs.Create(newJob(key("a"), 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Inject(lwtest.Fault{Verb: lwtest.Update, Effect: lwtest.Overtake()})
	for range 2 {
		body := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","resourceVersion":%q},"spec":{"size":2}}`,
			job.ResourceVersion)
		r, err := http.NewRequest("PUT", jobs.URL("default")+"/a", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(resp.Status)
		_ = resp.Body.Close()
		if job, err = jobs.Get(key("a")); err != nil { // what the controller reads before it tries again
			fmt.Println(err)
		}
	}
	// Output:
	// 409 Conflict
	// 200 OK
}

// The garbage collector acts when it is told to, one object at a time.
func ExampleServer_Collect() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job"})
	defer server.Close()
	jobs := lwtest.Objects[*Job](server, "jobs")
	owner, err := jobs.Create(newJob(key("a"), 1))
	if err != nil {
		fmt.Println(err)
	}
	for _, name := range []string{"b", "c"} {
		owned := newJob(key(name), 1)
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Job", Name: "a", UID: owner.UID}}
		if _, err := jobs.Create(owned); err != nil {
			fmt.Println(err)
		}
	}
	if err := jobs.Delete(key("a")); err != nil {
		fmt.Println(err)
	}
	for step := server.Collect(); step != ""; step = server.Collect() {
		fmt.Println(step)
	}
	// Output:
	// delete jobs default/b
	// delete jobs default/c
}

// A handler in front of the server says who makes a request, and Validate lets some users in.
func ExampleWithUser() {
	server := lwtest.StartServer(lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job",
		Validate: func(_ context.Context, a lwtest.Admission) error {
			if a.User.Username == "" { // the program itself
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "jobs"}, a.Name,
				fmt.Errorf("%s may not %s", a.User.Username, a.Verb))
		}})
	defer server.Close()
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := lwtest.User{Username: r.Header.Get("Impersonate-User")}
		server.ServeHTTP(w, r.WithContext(lwtest.WithUser(r.Context(), user)))
	})
	if _, err := lwtest.Objects[*Job](server, "jobs").Create(newJob(key("a"), 1)); err != nil {
		fmt.Println(err)
	}
	r := httptest.NewRequest("DELETE", "/apis/example.com/v1/namespaces/default/jobs/a", nil)
	r.Header.Set("Impersonate-User", "eve")
	w := httptest.NewRecorder()
	front.ServeHTTP(w, r)
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "eve may not delete"))
	// Output: 403 true
}
