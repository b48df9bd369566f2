// Package hook is what lwbuild links into a program: it puts lw under the informers of client-go.
// lwbuild adds a file to the program that sets client-go's hooks to the functions of this package.
//
// These variables of the environment count when the program runs:
//
//	LW=off          client-go's own informers run, as if the program had not been built by lwbuild
//	LW_REPORT=file  a page about the informers: at the end, on SIGUSR1, and each second until then
//	LW_PACK=1       the informers keep their objects packed: see Decoder.Pack
//	LW_LIMIT=256MiB the packed objects of all informers take no more, as Decoder.Limit says; it implies
//	                LW_PACK=1. A number of bytes may end in KiB, MiB or GiB
//	LW_KINDS=wait   an informer of a resource that nobody serves makes no request until it comes, as
//	                Decoder.Kinds says: of the server that such an informer, or a cache of
//	                controller-runtime, asks first
//	LW_BOARD=:port  serves lw's board
//
// LW_DECODE=standard is read by package lw: see lw.HTTP.Standard.
package hook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/guess"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwdebug"
)

// A state is what the hooks of a process share.
type state struct {
	off    bool
	file   string // of the report; "": none
	test   bool   // the process is a test binary
	board  lw.Board
	began  time.Time
	raised string // what lwbuild says of versions
	wire   wire
	kinds  *kinds.Catalog // nil: nothing waits
	limit  *lw.PackLimit  // nil: none

	mu      sync.Mutex
	entries []*entry // in the order in which they were made; empty unless there is a report
	asked   bool     // the report was asked for: its heap is of a collection for it
	waiting bool     // an informer had not synced when look was called last, or was made since
	all     struct { // when the last informer had synced
		after, cpu time.Duration
	}
}

var process = newState(os.Getenv("LW"), os.Getenv("LW_REPORT"))

func newState(switched, file string) *state {
	return &state{off: switched == "off", file: file, began: time.Now()}
}

// Start begins the report and serves the board, where the environment asks for it. versions is for
// the report. The report of a test binary is a line for each informer, appended as it is made,
// since many binaries write to one file, and tests make many informers.
func Start(versions string, test bool) {
	asked := make(chan os.Signal, 1)
	if process.file != "" && !test {
		notifyReport(asked)
	}
	process.start(context.Background(), asked, versions, test)
}

// start is Start. The report is kept until ctx is done.
func (s *state) start(ctx context.Context, asked <-chan os.Signal, versions string, test bool) {
	s.raised, s.test = versions, test
	if s.file != "" {
		// A test binary runs in the folder of its package, and a program may change its folder.
		if abs, err := filepath.Abs(s.file); err == nil {
			s.file = abs
		}
		if !test {
			go s.keepReport(ctx, asked)
		}
	}
	limit, err := limitOf(os.Getenv("LW_LIMIT"))
	if s.limit = limit; err != nil {
		fmt.Fprintln(os.Stderr, "lwbuild: LW_LIMIT:", err, "(there is no limit)")
	}
	if os.Getenv("LW_KINDS") == "wait" && !test {
		s.waitForKinds(ctx)
	}
	if address := os.Getenv("LW_BOARD"); address != "" && !test {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Fprintln(os.Stderr, "lwbuild: LW_BOARD:", err)
			return
		}
		fmt.Fprintf(os.Stderr, "lwbuild: LW_BOARD: http://%v\n", listener.Addr())
		go func() {
			server := http.Server{Handler: lwdebug.Handler(&s.board), ReadHeaderTimeout: 10 * time.Second}
			fmt.Fprintln(os.Stderr, "lwbuild: LW_BOARD:", server.Serve(listener))
		}()
	}
}

// End writes the report. The file of the main package defers it.
func End() {
	if s := process; s.file != "" && !s.test {
		s.write()
	}
}

// Exit writes the report, and returns code for os.Exit.
func Exit(code int) int {
	End()
	return code
}

// waitForKinds has the informers that are made from now on wait for their resources, until ctx is
// done. No request is made before such an informer runs.
func (s *state) waitForKinds(ctx context.Context) {
	s.kinds = &kinds.Catalog{}
	go func() { _ = s.kinds.Run(ctx) }() // it runs once
}

// Waits reports whether informers wait for their kinds.
func Waits() bool { return process.kinds != nil }

// Kinds returns a mapper for a cache of controller-runtime, whose own mapper is m, of the server at
// that URL. It answers for kinds that nobody serves. It is nil if the informers of that server do
// not wait. narrow says that the cache has the objects of some namespaces only.
func Kinds(m meta.RESTMapper, url string, client *http.Client, narrow bool) *guess.Mapper {
	s := process
	if s.off || s.kinds == nil {
		return nil
	}
	direct := *client
	direct.Timeout = 0 // which would end every watch
	if err := s.kinds.Bind(request.Mark{}, url, &direct, &lw.Options{Board: &s.board}); err != nil {
		return nil // another server was the first
	}
	return guess.New(m, s.kinds, narrow)
}

// limitOf returns the limit of a text such as 256MiB, or nil of an empty one.
func limitOf(text string) (*lw.PackLimit, error) {
	if text == "" {
		return nil, nil
	}
	q, err := resource.ParseQuantity(strings.TrimSuffix(text, "B"))
	if err != nil || q.Value() < 1<<20 { // 256m would be a quarter of a byte
		return nil, fmt.Errorf("%q is no number of bytes from 1MiB on, such as 256MiB", text)
	}
	return &lw.PackLimit{Bytes: q.Value()}, nil
}

// decoder makes lw's informers.
func (s *state) decoder(pageSize int64, onError func(error)) clientgo.Decoder {
	return clientgo.Decoder{Pack: os.Getenv("LW_PACK") == "1", Limit: s.limit, Kinds: s.kinds,
		Options: &lw.Options{Board: &s.board, PageSize: pageSize, OnError: onError}}
}

// Informer stands for cache.NewSharedIndexInformerWithOptions.
func Informer(lister cache.ListerWatcher, example runtime.Object,
	options cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	s := process
	var inf cache.SharedIndexInformer
	why := s.notTaken(lister)
	if why == "" {
		inf = s.decoder(0, nil).NewInformerWithOptions(lister, example, options)
	} else {
		inf = cache.NewSharedIndexInformerWithOptions(lister, example, options)
	}
	s.made(&entry{kind: "informer", of: typeOf(example, options.ObjectDescription), why: why, synced: inf.HasSynced,
		status: func() (lw.Status, bool) { return clientgo.Status(inf) },
		count:  func() int { return len(inf.GetStore().ListKeys()) }})
	return inf
}

// Controller stands for cache.NewInformerWithOptions, and for the older functions like it.
func Controller(options cache.InformerOptions) (cache.Indexer, cache.Controller) {
	s := process
	var store cache.Indexer
	var controller cache.Controller
	why := s.notTaken(options.ListerWatcher)
	if why == "" {
		store, controller = s.decoder(0, nil).NewController(options)
	} else {
		var plain cache.Store
		plain, controller = cache.NewInformerWithOptions(options)
		store = plain.(cache.Indexer) // client-go has one type of store
	}
	s.made(&entry{kind: "controller", of: typeOf(options.ObjectType, ""), why: why, synced: controller.HasSynced,
		status: func() (lw.Status, bool) { return clientgo.Status(controller) },
		count:  func() int { return len(store.ListKeys()) }})
	return store, controller
}

// Reflector stands for the method RunWithContext of a cache.Reflector. It returns false at once if
// client-go's own is to run. queue: store is that of an informer of client-go.
func Reflector(ctx context.Context, lister cache.ListerWatcher, example runtime.Object, store cache.ReflectorStore,
	queue bool, options cache.ReflectorOptions, pageSize int64, onError func(error)) bool {
	s := process
	e := &entry{kind: "reflector", of: typeOf(example, options.TypeDescription), why: s.notTaken(lister)}
	if e.why != "" {
		if !queue { // else the informer was noted
			s.made(e)
		}
		return false
	}
	reflector := s.decoder(pageSize, failed(onError)).NewReflector(lister, example, store, options)
	e.status = func() (lw.Status, bool) { return reflector.Status(), true }
	e.synced = func() bool { return reflector.Status().Synced }
	s.made(e)
	reflector.RunWithContext(ctx)
	return true
}

// failed returns what a reflector of client-go tells its handler of errors: requests that have
// failed, as client-go names them.
func failed(onError func(error)) func(error) {
	if onError == nil {
		return nil
	}
	return func(err error) {
		if e, ok := errors.AsType[*lw.Error](err); ok && e.Failures > 0 {
			onError(e.Err)
		}
	}
}

// notTaken returns why client-go's own informer runs, or "" if lw's does.
func (s *state) notTaken(lister cache.ListerWatcher) string {
	switch {
	case s.off:
		return "LW=off"
	case lister == nil:
		return "it has no ListerWatcher"
	}
	return ""
}

// Client stands for the client of each rest.RESTClient.
func Client(client *http.Client) *http.Client {
	s := process
	if s.file != "" && !s.test {
		client = s.wire.counted(client)
	}
	if !s.off {
		client = clientgo.Capture(client)
	}
	return client
}
