package source_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw"
)

// A Price is an object of docs/sources.md.
type Price struct {
	lw.Meta
	Cents int `json:"cents"`
}

// shop serves prices: as a list, and as Server-Sent Events.
type shop struct {
	mu      sync.Mutex
	prices  string
	changed chan struct{}
}

func (s *shop) set(prices string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prices = prices
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for {
		s.mu.Lock()
		prices, changed := s.prices, s.changed
		s.mu.Unlock()
		if r.URL.Path != "/events" {
			fmt.Fprint(w, prices)
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", prices)
		http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// follow runs an informer of src until it shows that price of tea, before and after it changes.
func (s *shop) follow(t *testing.T, src lw.Source[*Price]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	prices := lw.NewInformer(src, nil)
	done := make(chan struct{})
	go func() { defer close(done); prices.Run(ctx) }()
	for _, cents := range []int{250, 300} {
		tea := func(p *Price) bool { return p != nil && p.Cents == cents }
		if _, err := lw.WaitFor(ctx, prices, lw.Key{Name: "tea"}, tea); err != nil {
			t.Fatal(err)
		}
		s.set(`[{"name":"tea","cents":300}]`)
	}
	cancel()
	<-done
}

// What docs/sources.md shows of an endpoint that can only be asked.
func TestSourcesPagePoll(t *testing.T) {
	s := new(shop)
	s.set(`[{"name":"tea","cents":250},{"name":"coffee","cents":310}]`)
	server := httptest.NewServer(s)
	defer server.Close()
	url := server.URL

	src := lw.Poll(func(ctx context.Context) (prices []*Price, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("prices: %s", res.Status)
		}
		return prices, json.NewDecoder(res.Body).Decode(&prices)
	}, 50*time.Millisecond)

	s.follow(t, src)
}

// What docs/sources.md shows of Server-Sent Events.
func TestSourcesPageFeed(t *testing.T) {
	s := new(shop)
	s.set(`[{"name":"tea","cents":250}]`)
	server := httptest.NewServer(s)
	defer server.Close()
	url := server.URL + "/events"

	src := lw.Feed(func(ctx context.Context, to *lw.Feeder[*Price]) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		tell := to.Snapshot // the first event has all prices, the others have those that changed
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var prices []*Price
			if err := json.Unmarshal([]byte(data), &prices); err != nil {
				return err
			}
			if err := tell(prices); err != nil {
				return err
			}
			tell = func(prices []*Price) error { return to.Change(prices) }
		}
		return ctx.Err()
	})

	s.follow(t, src)
}

// What docs/sources.md shows of a program that owns its objects.
func TestSourcesPageMemory(t *testing.T) {
	ctx := t.Context()

	server := lw.NewMemory[*Price]()
	prices := lw.NewInformer(server, nil)
	done := make(chan struct{})
	go func() { defer close(done); prices.Run(ctx) }()
	version, err := server.Transact(ctx, []*Price{
		{Meta: lw.Meta{Name: "tea"}, Cents: 250},
		{Meta: lw.Meta{Name: "coffee"}, Cents: 310},
	})
	if err == nil {
		err = prices.WaitForResourceVersion(ctx, version)
	}

	if err != nil || prices.Store().Len() != 2 {
		t.Errorf("%d prices, %v", prices.Store().Len(), err)
	}
}
