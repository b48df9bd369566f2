package clientgo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	goruntime "runtime"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// This file finds out that a ListerWatcher changes what it gets, such as one that filters. If lw
// decoded what the server has sent, that would be lost without a word.

// changedWatch says how the ListerWatcher changes the events of its watches, or "" if it does not:
// then it returns the watch that client-go has made. It stops w, which has no events of the server.
func (s *capturedSource) changedWatch(p *probe, w watch.Interface) string {
	if isNil(w) {
		return ""
	}
	w.Stop()
	if _, ok := w.(*watch.StreamWatcher); ok {
		return ""
	}
	go drain(p.ctx, w)
	if s.decoder.Trust || s.object == metadataType && setsKinds(w) {
		return ""
	}
	return fmt.Sprintf("the ListerWatcher returns a %T, which may change the events", w)
}

// setsKinds reports whether w is the filter by which controller-runtime's cache gives the objects
// of a metadata client their kind. It changes nothing else, and lw sets the kind itself.
func setsKinds(w watch.Interface) bool {
	v := reflect.ValueOf(w)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return false
	}
	f := v.Elem().FieldByName("f") // of watch.Filter
	if !f.IsValid() || f.Kind() != reflect.Func || f.IsNil() {
		return false
	}
	name := goruntime.FuncForPC(f.Pointer()).Name()
	return strings.HasPrefix(name, "sigs.k8s.io/controller-runtime/pkg/cache/internal.") &&
		strings.Contains(name, "newGVKFixupWatcher")
}

// drain reads what a stopped watch still has to say. The goroutine of a watch.Filter ends only when
// all of it was read.
func drain(ctx context.Context, w watch.Interface) {
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// changedList says how the ListerWatcher has changed a list, or "" if it has not. It does so for
// the first list that has objects. client-go has decoded that from the bytes that p keeps.
func (s *capturedSource) changedList(p *probe, list runtime.Object) string {
	if !p.hasCopy() || isNil(list) {
		return ""
	}
	// Its own decoder drops nothing, as client-go does.
	src := &lw.HTTP[metav1.Object]{
		URL: p.collection, Client: answersClient, Type: s.object, Kind: s.kind,
		Whole: true, Standard: s.decoder.Standard,
	}
	var sent []metav1.Object
	_, err := src.List(request.WithoutLender(p.ctx), p.opts, func(obj metav1.Object, err error) error {
		sent = append(sent, obj)
		return err
	})
	p.rewind()
	if err != nil || len(sent) == 0 {
		return "" // nothing can be compared
	}
	items, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return ""
	}
	if len(items) != len(sent) {
		return fmt.Sprintf("the ListerWatcher returns %d of the %d objects of a list", len(items), len(sent))
	}
	for i, item := range items {
		if !sameObject(sent[i], item) {
			return fmt.Sprintf("the ListerWatcher changes %s/%s, or the order of the objects", sent[i].GetNamespace(), sent[i].GetName())
		}
	}
	s.compared.Store(true)
	return ""
}

// sameObject reports whether a ListerWatcher has returned item as the server sent it. The kind of a
// metadata object does not count: client-go's decoder leaves there what the server has written, and
// lw what the example says.
func sameObject(sent metav1.Object, item runtime.Object) bool {
	a, ok := sent.(*metav1.PartialObjectMetadata)
	b, ok2 := item.(*metav1.PartialObjectMetadata)
	if ok && ok2 {
		return equality.Semantic.DeepEqual(a.ObjectMeta, b.ObjectMeta)
	}
	return equality.Semantic.DeepEqual(sent, item)
}

// copies reads the body of resp, if the answer is to be compared, so that both lw and client-go can
// decode it. It returns the body for client-go.
func (p *probe) copies(resp *http.Response) (io.ReadCloser, error) {
	if !p.compare || resp.StatusCode != http.StatusOK {
		return http.NoBody, nil
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	p.data = data
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (p *probe) hasCopy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.data != nil
}

// rewind lets the answer be decoded once more, from its beginning.
func (p *probe) rewind() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.response.Body = io.NopCloser(bytes.NewReader(p.data))
}

// discard closes the answer, which nobody reads.
func (p *probe) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.response != nil {
		p.response.Body.Close()
	}
}
