package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// A lateSource is a source whose shard selector and transform are set later: before the first
// request, and never after.
type lateSource struct {
	src       lw.Source[metav1.Object]
	shard     string              // a selector; "": all
	transform cache.TransformFunc // nil: none

	once sync.Once
	to   lw.Source[metav1.Object] // set by once
}

// source returns the source with its selector and its transform, which may drop what is selected
// by.
func (s *lateSource) source() lw.Source[metav1.Object] {
	s.once.Do(func() {
		s.to = s.src
		if s.shard != "" {
			s.to = lw.WithListOptions(s.to, func(o *metav1.ListOptions) { o.ShardSelector = s.shard })
		}
		if s.transform != nil {
			s.to = lw.Transform(s.to, s.apply)
		}
	})
	return s.to
}

func (s *lateSource) apply(obj metav1.Object) (metav1.Object, error) {
	out, err := s.transform(own(obj))
	if err != nil || isNil(out) {
		return nil, err
	}
	to, ok := out.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("the transform returned a %T, which has no metadata", out)
	}
	return to, nil
}

func (s *lateSource) Hints() lw.SourceHints { return lw.HintsOf(s.source()) }

// Told is part of lw.Teller.
func (s *lateSource) Told(obj lw.Identified) (metav1.Object, bool, error) {
	return told(s.source(), obj)
}

// told is Told of src, if that is an lw.Teller.
func told(src lw.Source[metav1.Object], obj lw.Identified) (metav1.Object, bool, error) {
	if to, ok := src.(lw.Teller[metav1.Object]); ok {
		return to.Told(obj)
	}
	return nil, false, fmt.Errorf("its ListerWatcher may change what the server sends: %w", errors.ErrUnsupported)
}

// Reuses is part of [request.Source]. A source with a transform is none.
func (s *lateSource) Reuses(request.Mark) bool { return request.Reuses(s.source()) }

func (s *lateSource) List(ctx context.Context, opts metav1.ListOptions, yield func(metav1.Object, error) error) (metav1.ListMeta, error) {
	return s.source().List(ctx, opts, yield)
}

func (s *lateSource) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[metav1.Object]) error) error {
	return s.source().Watch(ctx, opts, yield)
}
