package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http/httptest"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// A world is an API server in memory with what a controller needs. Its methods never meet a fault.
type world struct {
	*lwtest.Server
	sites  *lwtest.Collection[*Website]
	pages  *lwtest.Collection[*corev1.ConfigMap]
	leases *lwtest.Collection[*coordinationv1.Lease]
}

func newWorld() *world {
	server := lwtest.StartServer(
		lwtest.Resource{Group: groupVersion.Group, Plural: "websites", Kind: "Website", Status: true},
		lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"},
		lwtest.Resource{Group: "coordination.k8s.io", Plural: "leases", Kind: "Lease"},
	)
	return &world{
		Server: server,
		sites:  lwtest.Objects[*Website](server, "websites"),
		pages:  lwtest.Objects[*corev1.ConfigMap](server, "configmaps"),
		leases: lwtest.Objects[*coordinationv1.Lease](server, "leases"),
	}
}

// config is how client-go's clients reach the server. It speaks JSON alone.
func (w *world) config() *rest.Config {
	return &rest.Config{
		Host: w.URL(), Transport: w.Client().Transport, QPS: 1000, Burst: 1000,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

// write creates a Website, or replaces its pages.
func (w *world) write(name string, pages map[string]string) error {
	for {
		site, err := w.sites.Get(lw.Key{Namespace: "default", Name: name})
		if err != nil {
			site = &Website{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		}
		site.Spec.Pages = pages
		if err != nil {
			_, err = w.sites.Create(site)
		} else {
			_, err = w.sites.Update(site)
		}
		if !apierrors.IsConflict(err) { // with the controller, which may write the same Website
			return err
		}
	}
}

// check returns nil if the server has exactly the pages that its Websites want, and c knows it.
func (w *world) check(c *Controller) error {
	pages := map[lw.Key]*corev1.ConfigMap{}
	for page := range w.pages.All() {
		pages[lw.KeyOf(page)] = page
	}
	for site := range w.sites.All() {
		if site.DeletionTimestamp != nil {
			return fmt.Errorf("website %s is still there", site.Name)
		}
		for name := range site.Spec.Pages {
			want := newPage(site, name)
			have, ok := pages[lw.KeyOf(want)]
			delete(pages, lw.KeyOf(want))
			if !ok || !maps.Equal(have.Data, want.Data) || !metav1.IsControlledBy(have, site) {
				return fmt.Errorf("page %s is %+v, want %+v", want.Name, have, want)
			}
		}
		if want := (WebsiteStatus{site.Generation, len(site.Spec.Pages)}); site.Status != want {
			return fmt.Errorf("the status of %s is %+v, want %+v", site.Name, site.Status, want)
		}
	}
	for key := range pages {
		return fmt.Errorf("page %s belongs to no website", key)
	}
	if sites := slices.Collect(w.sites.All()); len(sites) != c.sites.Store().Len() {
		return fmt.Errorf("the controller knows %d websites, and there are %d", c.sites.Store().Len(), len(sites))
	}
	return nil
}

// demo runs a controller on a server in memory, lets things happen, and returns nil if the server
// has what it should have each time. If there is a debug listener, it serves Debug there, and the
// controller goes on until ctx is done.
func demo(ctx context.Context, out io.Writer, debug net.Listener) error {
	done := ctx.Done()
	w := newWorld()
	defer w.Close()
	c, err := New(w.config(), "", slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: short})))
	if err != nil {
		return err
	}
	if debug != nil {
		defer serve(debug, c.Debug())()
		fmt.Fprintf(out, "%s shows what the informers do, and %smetrics is for Prometheus\n", url(debug), url(debug))
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()

	page := func(name string) lw.Key { return lw.Key{Namespace: "default", Name: name} }
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"three websites are created", func() error {
			for name, pages := range map[string]map[string]string{
				"bakery": {"home": "Bread", "prices": "2.50"}, "school": {"home": "Welcome"}, "zoo": {"home": "Lions", "map": "Here"},
			} {
				if err := w.write(name, pages); err != nil {
					return err
				}
			}
			return nil
		}},
		{"somebody deletes a page and writes over another one", func() error {
			if err := w.pages.Delete(page("zoo-map")); err != nil {
				return err
			}
			home, err := w.pages.Get(page("zoo-home"))
			if err != nil {
				return err
			}
			home.Data = map[string]string{"index.html": "Tigers"}
			_, err = w.pages.Update(home)
			return err
		}},
		{"the connection breaks, and pages change meanwhile", func() error {
			w.Break()
			return w.write("bakery", map[string]string{"home": "Bread and cake", "jobs": "None"})
		}},
		{"a website is deleted: its pages go first", func() error { return w.sites.Delete(page("school")) }},
	} {
		began := time.Now()
		fmt.Fprintf(out, "\n%s\n", step.what)
		if err := step.do(); err != nil {
			return err
		}
		for err := w.check(c); err != nil; err = w.check(c) {
			select {
			case <-time.After(5 * time.Millisecond):
			case err := <-ended:
				return fmt.Errorf("the controller has ended: %w", err)
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", step.what, err)
			}
		}
		fmt.Fprintf(out, "done after %v\n", time.Since(began).Round(time.Millisecond))
	}

	answer := httptest.NewRecorder()
	c.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", nil))
	fmt.Fprintf(out, "\nGET /healthz: %d\n%s", answer.Code, answer.Body)
	if debug != nil {
		fmt.Fprintf(out, "\nthe demo is over; the controller goes on until Ctrl-C: look at %s\n", url(debug))
		select {
		case err := <-ended:
			ended <- err // for the one who reads it below
		case <-done:
		}
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	for lease := range w.leases.All() {
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
			return fmt.Errorf("the lease is still held by %s", *holder)
		}
	}
	fmt.Fprintln(out, "\nthe controller has stopped and given up its lease; the server has what the websites want")
	return w.check(c)
}

// short leaves the time out of the log.
func short(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
