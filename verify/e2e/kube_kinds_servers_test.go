package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// condition waits until an object has a condition with a status, and returns when it was seen.
func condition(t *testing.T, r *servers.Reader, path, typ, status string) time.Time {
	t.Helper()
	rig.Until(t, patience, func() string {
		var o struct {
			Status struct{ Conditions []metav1.Condition }
		}
		body, err := r.Get(within(t, patience), path)
		if err == nil {
			err = json.Unmarshal(body, &o)
		}
		for _, c := range o.Status.Conditions {
			if c.Type == typ && string(c.Status) == status {
				return ""
			}
		}
		return fmt.Sprintf("%s is not %s=%s: %+v, %v", path, typ, status, o.Status.Conditions, err)
	})
	return time.Now()
}

// answered returns when the first request for the kind since then was made that was answered, if
// there was one, and how many answers 404 and 429 came before.
func (f *rooms) answered(since time.Time) (at time.Time, lost, busy int) {
	for _, r := range f.client.all() {
		if r.at.Before(since) || !strings.HasSuffix(r.path, "/"+f.plural) {
			continue
		}
		switch r.status {
		case http.StatusOK:
			return r.at, lost, busy
		case http.StatusNotFound:
			lost++
		case http.StatusTooManyRequests:
			busy++
		}
	}
	return at, lost, busy
}

// TestKindsOfTwoServers follows a kind of two API servers on one etcd, of which the second one learns
// seconds later than the first one that the kind is there, and that it is gone. A catalog and its
// informers ask the same server, or each another one, or both in turn.
func TestKindsOfTwoServers(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const plural, path = "lofts", "/apis/lw.test/v1/lofts"
		// A server that is one of several has a new kind Established after five seconds.
		first := startServer(t, kind, "--apiserver-count=2")
		link := rig.Must[*servers.Link](t)(first.NewLink())
		t.Cleanup(link.Close)
		second := rig.Must[*servers.Server](t)(first.Beside(link, withCBOR(kind, []string{"--apiserver-count=2"})...))
		t.Cleanup(second.Stop)
		rig.OK(t, second.StartAPI(within(t, patience)))
		one, two := reader(t, first, ""), reader(t, second, "")

		lane := func(name string, catalog *kinds.Catalog, s *servers.Server, to ...string) *rooms {
			c := newClient(t, s, wire{name: name, to: to})
			if catalog == nil {
				catalog = catalogOf(t, c)
			}
			source := kinds.Source(catalog, kinds.Name{Group: "lw.test", Resource: plural},
				&kinds.SourceOptions[*unstructured.Unstructured]{Make: func(s kinds.State) lw.Source[*unstructured.Unstructured] {
					return &lw.HTTP[*unstructured.Unstructured]{URL: c.url + path, Client: c.http, Kind: kindOf(plural)}
				}})
			f := &rooms{t, follow(t, c, path, source, followOptions{}), one, plural}
			f.synced()
			return f
		}
		catalog := func(s *servers.Server) *kinds.Catalog { return catalogOf(t, newClient(t, s, wire{name: "catalog"})) }
		ahead := lane("the catalog is ahead", catalog(first), second)
		behind := lane("the catalog is behind", catalog(second), first)
		beside := lane("both are the second server's", nil, second)
		balanced := lane("in turn", nil, first, first.URL, second.URL)
		all := []*rooms{ahead, behind, beside, balanced}
		has := func(n, adds, deletes int, of ...*rooms) {
			t.Helper()
			for _, f := range of {
				f.has(n, adds, deletes)
			}
		}
		has(0, 0, 0, all...)
		for _, f := range all {
			if n := f.asked(""); n != 0 {
				t.Errorf("%s: %d requests for a kind that nobody serves:\n%v", f.name(), n, f.client.recorder)
			}
		}

		objects, held := 0, false
		for round, by := range []struct {
			r          *servers.Reader
			late, over bool // the second server is late; and it is late until the kind is there again
		}{{r: one, late: true}, {r: two}, {r: one, late: true, over: true}, {r: one}} {
			before := objects
			ahead.r = by.r
			began := time.Now()
			if held = held || by.late; held {
				link.Hold()
			}
			ahead.define("Namespaced")
			established := condition(t, by.r, ahead.definition(), "Established", "True")
			if !held {
				mustBeServed(t, two, path)
				established = time.Now()
			}
			ahead.add("default", "one")
			objects++
			if by.late {
				rig.Until(t, patience, func() string {
					if _, lost, _ := ahead.answered(began); lost < 4 {
						return fmt.Sprintf("round %d: %d answers 404 of the server that does not know the kind", round, lost)
					}
					return ""
				})
				has(0, before, before, ahead, behind, beside) // the second server is asked, or is to say so
			}
			took, served := time.Since(began), established
			if held {
				link.Release()
				mustBeServed(t, two, path)
				served = time.Now()
			}
			has(1, objects, before, all...)
			for _, f := range all {
				var at time.Time
				var lost, busy int
				rig.Until(t, patience, func() string {
					if at, lost, busy = f.answered(began); at.IsZero() {
						return fmt.Sprintf("round %d, %s: no list", round, f.name())
					}
					return ""
				})
				late := at.Sub(served)
				t.Logf("round %d, %s: a list %v after the second server serves the kind; %d 404, %d 429; %v after its definition",
					round, f.name(), late.Round(time.Millisecond), lost, busy, took.Round(time.Millisecond))
				if late > 4*time.Second*slowdown {
					t.Errorf("round %d, %s: the first list is %v late", round, f.name(), late)
				}
			}
			for i := range 10 { // through both servers
				ahead.r = []*servers.Reader{one, two}[i%2]
				ahead.add("default", fmt.Sprint("more-", i))
				objects++
			}
			has(11, objects, before, all...)

			ahead.r = by.r
			if by.late {
				link.Hold()
			}
			ahead.undefine()
			ahead.gone()
			if by.late {
				has(0, objects, objects, ahead, behind)
			}
			if held = by.over; held {
				continue // the next one comes before the second server knows that this one is gone
			}
			link.Release()
			has(0, objects, objects, all...)
		}
		for _, f := range all {
			if errs := f.errs.all(); len(errs) > 0 {
				t.Errorf("%s: OnError was told of %v", f.name(), errs)
			}
			for _, fault := range f.early.wrong() {
				t.Errorf("%s: %s", f.name(), fault)
			}
		}
	}, servers.Kube)
}

var kindDead = flag.Duration("kinds.dead", 3*time.Minute,
	"for how long the server behind an APIService is away in TestKindsOfAnAPIService")

// A backend is a server of aggregated kinds, at a port that stays the same.
type backend struct {
	*lwtest.Server
	address string
	serving *httptest.Server
}

func (b *backend) start(t *testing.T) {
	t.Helper()
	b.serving = httptest.NewUnstartedServer(b.Server)
	b.serving.Listener.Close()
	b.serving.Listener = rig.Must[net.Listener](t)(net.Listen("tcp", b.address))
	b.serving.EnableHTTP2 = true
	b.serving.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	b.serving.StartTLS()
}

// die ends the server with its connections.
func (b *backend) die() {
	b.serving.CloseClientConnections()
	b.serving.Close()
}

// TestKindsOfAnAPIService follows a kind of an aggregated server that comes, is away for minutes,
// comes again, and goes.
func TestKindsOfAnAPIService(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const group, plural = "reports.lw.test", "reports"
		const services, apiService = "/apis/apiregistration.k8s.io/v1/apiservices", "v1." + group
		s, r := started(t, kind)
		port := rig.Must[int](t)(rig.FreePort())
		b := &backend{Server: lwtest.NewServer(t, lwtest.Resource{Group: group, Plural: plural, Kind: "Report"}),
			address: fmt.Sprintf("127.0.0.1:%d", port)}
		reports := lwtest.Objects[*unstructured.Unstructured](b.Server, plural)
		put := func(name string) {
			t.Helper()
			rig.Must[*unstructured.Unstructured](t)(reports.Create(&unstructured.Unstructured{Object: object{
				"kind": "Report", "apiVersion": group + "/v1", "metadata": object{"namespace": "default", "name": name}}}))
		}
		for i := range 3 {
			put(fmt.Sprint("report-", i))
		}
		begin := func(who string) *rooms {
			c := newClient(t, s, wire{name: who})
			name := kinds.Name{Group: group, Version: "v1", Kind: "Report"}
			source := kinds.Source[*unstructured.Unstructured](catalogOf(t, c), name, nil)
			return &rooms{t, follow(t, c, "/apis/"+group+"/v1/"+plural, source, followOptions{}), r, plural}
		}
		f := begin("reports")
		f.synced()
		f.has(0, 0, 0)

		// The APIService is there before its service, and that before its server.
		register := func() {
			create(t, r, services, object{"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1",
				"metadata": object{"name": apiService},
				"spec": object{"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
					"insecureSkipTLSVerify": true, "service": object{"namespace": "default", "name": "reports", "port": port}}})
		}
		available := func(status string) time.Time {
			t.Helper()
			return condition(t, r, services+"/"+apiService, "Available", status)
		}
		register()
		available("False")
		create(t, r, "/api/v1/namespaces/default/services", object{"kind": "Service", "apiVersion": "v1",
			"metadata": object{"name": "reports"}, "spec": object{"type": "ExternalName", "externalName": "127.0.0.1"}})
		time.Sleep(2 * time.Second)
		available("False")
		f.has(0, 0, 0)
		if n := f.asked(""); n != 0 {
			t.Errorf("%d requests for a kind whose server has never been there:\n%v", n, f.client.recorder)
		}
		b.start(t)
		t.Cleanup(func() { b.die() })
		since := available("True")
		f.has(3, 3, 0)
		t.Logf("the objects are there %v after the APIService is available", time.Since(since).Round(time.Millisecond))
		put("late")
		f.has(4, 4, 0)

		b.die()
		away := time.Now()
		available("False")
		newcomer := begin("newcomer") // a program that starts now
		put("meanwhile")
		rig.OK(t, reports.Delete(lw.Key{Namespace: "default", Name: "report-0"}))
		f.told("503", apierrors.IsServiceUnavailable)
		for time.Since(away) < *kindDead {
			st := f.Status()
			if a, _, d := f.calls(); st.Objects != 4 || a != 4 || d != 0 || !st.Synced || st.Unserved != "" {
				t.Fatalf("%d objects, %d Adds, %d Deletes while the server is away, want 4, 4, 0; %+v", st.Objects, a, d, st)
			}
			if st := newcomer.Status(); st.Synced {
				t.Fatalf("a newcomer is in step without the server: %+v", st)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if st := f.Status(); st.Failures < 3 || !apierrors.IsServiceUnavailable(st.Err) {
			t.Errorf("status after %v without the server: %+v", time.Since(away), st)
		}
		err := newcomer.WaitForSync(within(t, 10*time.Millisecond))
		t.Logf("a newcomer waits: %v; %d requests", err, newcomer.asked(""))
		f.paced()
		last := f.client.all()
		b.start(t)
		since = available("True")
		f.has(4, 5, 1)
		now := time.Now()
		newcomer.has(4, 4, 0)
		t.Logf("in step %v after the APIService is available again, %v after the last request without it",
			now.Sub(since).Round(time.Millisecond), now.Sub(last[len(last)-1].at).Round(time.Millisecond))
		t.Logf("a newcomer %v after the APIService is available again", time.Since(since).Round(time.Millisecond))
		if late := now.Sub(since); late > 2*time.Second*slowdown {
			t.Errorf("in step %v after the APIService is available: the pause has not ended at once", late)
		}
		newcomer.synced()

		told := len(f.errs.all())
		remove(t, r, services+"/"+apiService)
		rig.Until(t, patience, func() string {
			if st := f.Status(); !strings.Contains(st.Unserved, "no APIService serves "+group+"/v1") {
				return fmt.Sprintf("the APIService is gone: %+v", st)
			}
			return ""
		})
		time.Sleep(3 * time.Second) // the open watch has two more
		put("unseen")
		n := f.asked("")
		time.Sleep(5 * time.Second)
		if more := f.asked("") - n; more != 0 {
			t.Errorf("%d requests for a kind whose APIService is gone:\n%v", more, f.client.recorder)
		}
		f.has(4, 5, 1)
		empty := begin("without the APIService")
		empty.synced()
		empty.has(0, 0, 0)

		register()
		since = available("True")
		f.has(5, 6, 1)
		empty.has(5, 5, 0)
		t.Logf("in step %v after another APIService is available", time.Since(since).Round(time.Millisecond))
		if errs := f.errs.all()[told:]; len(errs) > 0 {
			t.Errorf("OnError was told of %v since the APIService was gone", errs)
		}
		for _, errs := range [][]error{newcomer.errs.all(), empty.errs.all()} {
			if len(errs) > 0 {
				t.Errorf("OnError of another informer was told of %v", errs)
			}
		}
	}, servers.Kube)
}
