package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

type object = map[string]any

// configMap returns a ConfigMap in JSON's terms.
func configMap(namespace, name, value string) object {
	return object{"kind": "ConfigMap", "apiVersion": "v1",
		"metadata": object{"namespace": namespace, "name": name, "labels": object{"value": value}},
		"data":     object{"value": value}}
}

// pod returns a Pod in JSON's terms.
func pod(namespace, name, node, value string) object {
	return object{"kind": "Pod", "apiVersion": "v1",
		"metadata": object{"namespace": namespace, "name": name, "labels": object{"value": value}},
		"spec": object{"nodeName": node, "containers": []object{{"name": "c", "image": "image",
			"resources": object{"requests": object{"cpu": "100m", "memory": "1Gi"}}}}}}
}

// create posts obj to the collection at path and returns what the server made of it.
func create(t testing.TB, r *servers.Reader, path string, obj object) *servers.Object {
	t.Helper()
	return write(t, r, http.MethodPost, path, obj)
}

// createSecret moves the server's version, which no watch of another resource sees.
func createSecret(t testing.TB, r *servers.Reader, namespace string) *servers.Object {
	t.Helper()
	return create(t, r, collection("secrets", namespace), object{"kind": "Secret", "apiVersion": "v1",
		"metadata": object{"generateName": "s-", "namespace": namespace}})
}

// update puts obj, which is at path, in place of what is there.
func update(t testing.TB, r *servers.Reader, path string, obj object) *servers.Object {
	t.Helper()
	return write(t, r, http.MethodPut, path, obj)
}

// remove deletes the object at path at once.
func remove(t testing.TB, r *servers.Reader, path string) {
	t.Helper()
	write(t, r, http.MethodDelete, path+"?gracePeriodSeconds=0", nil)
}

// merge merges patch into the object at path.
func merge(t testing.TB, r *servers.Reader, path string, patch object) {
	t.Helper()
	rig.Must[[]byte](t)(r.Do(within(t, patience), http.MethodPatch, path, "application/merge-patch+json", patch))
}

func write(t testing.TB, r *servers.Reader, method, path string, obj object) *servers.Object {
	t.Helper()
	var in any
	if obj != nil {
		in = obj
	}
	body, err := r.Do(within(t, patience), method, path, "", in)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	o := rig.Must[*servers.Object](t)(servers.ParseObject(body))
	return o
}

// A churn writes random ConfigMaps until it is stopped, whatever happens to its server.
type churn struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	written int // guarded by mu
	failed  int // guarded by mu
}

// startChurn creates, updates and deletes 20 ConfigMaps in the namespace, about 50 times a second.
func startChurn(t testing.TB, s *servers.Server, namespace string) *churn {
	ctx, cancel := context.WithCancel(context.Background())
	c := &churn{cancel: cancel, done: make(chan struct{})}
	go c.run(ctx, s, namespace)
	t.Cleanup(func() { c.stop() })
	return c
}

func (c *churn) run(ctx context.Context, s *servers.Server, namespace string) {
	defer close(c.done)
	r := s.Reader("")
	defer r.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	path := collection("configmaps", namespace)
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("churn-%d", rng.IntN(20))
		obj := configMap(namespace, name, fmt.Sprint(i))
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		var err error
		if rng.IntN(4) == 0 {
			_, err = r.Do(attempt, http.MethodDelete, path+"/"+name, "", nil)
		} else if _, err = r.Do(attempt, http.MethodPut, path+"/"+name, "", obj); isNotFound(err) {
			_, err = r.Do(attempt, http.MethodPost, path, "", obj)
		}
		cancel()
		c.mu.Lock()
		if err == nil {
			c.written++
		} else if !isNotFound(err) {
			c.failed++
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends the writes; none is under way when it returns.
func (c *churn) stop() {
	c.cancel()
	<-c.done
}

// counts returns how many writes the server took, and how many failed.
func (c *churn) counts() (written, failed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written, c.failed
}

// more waits until the server has taken n more writes.
func (c *churn) more(t testing.TB, n int) {
	t.Helper()
	before, _ := c.counts()
	rig.Until(t, patience, func() string {
		if now, _ := c.counts(); now < before+n {
			return fmt.Sprintf("%d writes, want %d", now-before, n)
		}
		return ""
	})
}

func isNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// hasCode reports whether err is a Reader's answer of that status.
func hasCode(err error, code int) bool {
	status, ok := errors.AsType[*servers.StatusError](err)
	return ok && status.Code == code
}

// seed writes n ConfigMaps directly into etcd. Each has about size bytes that do not compress well:
// a test that disturbs a server in the middle of a list needs a list that the socket buffers cannot
// hold.
func seed(t testing.TB, s *servers.Server, namespace string, n, size int) {
	t.Helper()
	values := make(map[string][]byte, n)
	filler := make([]byte, size)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		for i := range filler {
			filler[i] = '0' + byte(rng.IntN(64))
		}
		name := fmt.Sprintf("seed-%05d", i)
		values["/registry/configmaps/"+namespace+"/"+name] = stored(t, configMap(namespace, name, "seed"), "uid-"+name,
			string(filler))
	}
	rig.OK(t, s.Put(within(t, patience), values))
}

// stored returns a ConfigMap as it may stand in etcd.
func stored(t testing.TB, obj object, uid, filler string) []byte {
	t.Helper()
	obj["metadata"].(object)["uid"] = uid
	obj["metadata"].(object)["creationTimestamp"] = "2026-01-02T03:04:05Z"
	obj["data"].(object)["filler"] = filler
	return rig.Must[[]byte](t)(json.Marshal(obj))
}

// watchError opens a watch of its own. It returns the code of the ERROR event that ends the watch,
// or the status of the answer, or 0 if neither comes within a few seconds.
func watchError(t testing.TB, r *servers.Reader, path string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	body, err := r.Open(ctx, path)
	if status, ok := errors.AsType[*servers.StatusError](err); ok {
		return status.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	for dec := json.NewDecoder(body); ; {
		var event struct {
			Type   string
			Object struct{ Code int }
		}
		if err := dec.Decode(&event); err != nil {
			return 0
		}
		if event.Type == "ERROR" {
			return event.Object.Code
		}
	}
}

// watchEvents returns how many events a plain watch sees until it ends.
func watchEvents(t testing.TB, r *servers.Reader, path string) int {
	t.Helper()
	body, err := r.Open(within(t, patience), path)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	n := 0
	for dec := json.NewDecoder(body); ; n++ {
		var event struct{ Type string }
		if err := dec.Decode(&event); err != nil {
			return n
		}
	}
}
