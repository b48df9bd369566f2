package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// A partSource is a source of a Decoder of clientgo for lw.Wanted. A source of a Decoder is for one
// goroutine, and what becomes wanted is read in others. So each such read has a source of its own,
// and the hints of the first one are copied where it is used.
type partSource struct {
	lw.Source[metav1.Object] // of the informer's goroutine
	another                  func() lw.Source[metav1.Object]
	hints                    atomic.Pointer[lw.SourceHints]
}

func newPartSource(another func() lw.Source[metav1.Object]) *partSource {
	s := &partSource{Source: another(), another: another}
	s.note()
	return s
}

// note copies the hints. Only the informer's goroutine calls it when it runs.
func (s *partSource) note() {
	h := lw.HintsOf(s.Source)
	h.StillHas = func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
		return lw.StillHasByList(ctx, s, obj, version)
	}
	s.hints.Store(&h)
}

// Hints returns those that the source had last.
func (s *partSource) Hints() lw.SourceHints { return *s.hints.Load() }

// Told is part of lw.Teller.
func (s *partSource) Told(obj lw.Identified) (metav1.Object, bool, error) {
	if to, ok := s.Source.(lw.Teller[metav1.Object]); ok {
		return to.Told(obj)
	}
	return nil, false, fmt.Errorf("controllerruntime: client-go decodes: %w", errors.ErrUnsupported)
}

// Reuses is part of [request.Source].
func (s *partSource) Reuses(request.Mark) bool { return request.Reuses(s.Source) }

func (s *partSource) List(ctx context.Context, opts metav1.ListOptions, yield func(metav1.Object, error) error) (metav1.ListMeta, error) {
	if request.PartOf(ctx) != nil {
		// This source does not know whether client-go has decoded the last versions.
		return s.another().List(request.WithoutLender(ctx), opts, yield)
	}
	defer s.note()
	return s.Source.List(ctx, opts, yield)
}

func (s *partSource) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[metav1.Object]) error) error {
	defer s.note()
	noted := false
	return s.Source.Watch(ctx, opts, func(ev lw.WatchEvent[metav1.Object]) error {
		if !noted {
			noted = true
			s.note()
		}
		return yield(ev)
	})
}
