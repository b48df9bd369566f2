package layers

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-lw/lw/internal/verify/golist"
)

// A Package is a package of the product, with its rooms, the lowest one first.
type Package struct {
	Folder string
	Rooms  []Room
	Knot   int  // the most files that may need each other; 0: maxKnot
	Module bool // it is a module of its own, whose tests hold its rooms
}

// maxKnot is the most files that may need each other. Whoever reads one of them reads all.
const maxKnot = 10

// Product is the folders of the repository, as Rooms is the files of package lw.
var Product = []Room{
	{"base", []string{"internal/demand", "internal/equal", "internal/equal/mutation", "internal/graph/arrange",
		"internal/pace", "internal/listopts/shard", "internal/registry", "internal/registry/values",
		"internal/lz", "internal/recent", "internal/table/signal", "internal/wire", "internal/board/markup",
		"internal/decode/prune",
		"internal/why/names", "serve/internal/order"}, nil},
	{"decode", []string{"internal/decode", "internal/decode/standard", "internal/request", "internal/rest",
		"internal/why"}, []string{"base"}},
	{"table", []string{"internal/table", "internal/graph/settle"}, []string{"base"}},
	{"history", []string{"internal/listopts", "internal/history"}, []string{"base"}},
	{"lw", []string{"."}, []string{"base", "decode", "table", "history"}},
	{"kinds", []string{"kinds"}, []string{"base", "decode", "lw"}},
	{"serve", []string{"serve"}, []string{"base", "history", "lw"}},
	{"tests", []string{"lwtest", "internal/apiserver"}, []string{"base", "decode", "history", "lw"}},
	{"doors", []string{"etcd", "clientgo", "controllerruntime", "websocket", "prom", "lwdebug", "internal/board",
		"internal/guess"},
		[]string{"base", "decode", "history", "lw", "kinds"}},
	{"apparatus", []string{"internal/verify/*", "verify/*", "verify/internal/*", "examples/*"},
		[]string{"base", "decode", "table", "history", "lw", "kinds", "serve", "tests", "doors"}},
}

// Packages are the packages whose rooms are held.
var Packages = []Package{
	{Folder: ".", Rooms: Rooms},
	{Folder: "internal/table", Rooms: []Room{
		{"bytes", []string{"doc.go", "value.go", "table.go", "hash.go", "vector.go", "bitset.go", "handles.go", "btree.go"},
			nil},
		{"store", []string{"store.go", "snapshot.go", "replace.go", "compact.go", "index.go", "groups.go", "members.go", "memo.go",
			"order.go"}, []string{"bytes"}},
		{"batch", []string{"batch.go"}, []string{"bytes", "store"}},
	}},
	{Folder: "internal/decode", Knot: 45, Rooms: []Room{
		{"buffer", []string{"stream_buffer.go", "proto_wire.go"}, nil},
		{"parser", []string{"json_parse.go", "json_skip.go", "json_string.go", "json_raw.go"}, []string{"buffer"}},
		{"cbor", []string{"cbor_item.go"}, []string{"buffer", "parser"}},
		{"decoders", []string{"decode.go", "root.go", "kind.go", "status.go", "path.go", "mask.go", "pass.go", "unsafe.go",
			"json_*.go", "proto_*.go", "cbor_*.go", "reuse_*.go", "stream_*.go"}, []string{"buffer", "parser", "cbor"}},
		{"one", []string{"one.go"}, []string{"decoders"}},
	}},
	{Folder: "serve", Rooms: []Room{
		{"options", []string{"doc.go", "options.go", "limit.go"}, nil},
		{"bytes", []string{"splice.go", "object.go", "size.go", "stamp.go", "conn*.go"}, nil},
		{"items", []string{"format.go", "item.go", "resource.go"}, []string{"options", "bytes"}},
		{"history", []string{"history.go", "match.go"}, []string{"options", "bytes", "items"}},
		{"encoder", []string{"encode.go", "table.go", "frame.go"}, []string{"options", "bytes", "items", "history"}},
		{"feed", []string{"feed.go"}, []string{"bytes", "items", "history"}},
		{"watches", []string{"collection.go", "fresh.go", "watcher.go", "stream.go", "sweep.go"},
			[]string{"options", "bytes", "items", "history", "encoder"}},
		{"handler", []string{"serve.go", "status.go", "collect.go"}, []string{"options", "bytes", "items", "history",
			"encoder", "feed", "watches"}},
		{"answers", []string{"dispatch.go", "request.go", "answer.go", "list.go", "watch.go", "write.go"},
			[]string{"options", "bytes", "items", "history", "encoder", "watches", "handler"}},
		{"store", []string{"store.go", "convert.go"}, []string{"options", "items", "history", "watches", "handler"}},
	}},
	{Folder: "etcd", Module: true, Rooms: []Room{
		{"requests", []string{"doc.go", "errors.go", "reader.go", "progress.go", "identity.go"}, nil},
		{"codecs", []string{"codec*.go"}, nil},
		{"collection", []string{"collection.go", "fingerprint.go"}, []string{"requests", "codecs"}},
		{"source", []string{"list.go", "watch*.go"}, []string{"requests", "collection"}},
		{"writes", []string{"write.go"}, []string{"requests", "codecs", "collection"}},
	}},
	{Folder: "clientgo", Module: true, Rooms: []Room{
		{"sources", []string{"doc.go", "clientgo.go", "source.go", "transform.go", "packed.go", "resync.go", "shard.go", "records.go",
			"enqueue.go", "reasons.go", "retrywatcher.go"}, nil},
		{"informers", []string{"handler.go", "metrics.go", "indexer.go", "informer.go", "factory.go"}, []string{"sources"}},
		{"new", []string{"newinformer.go", "watcherror.go"}, []string{"sources", "informers"}},
		{"capture", []string{"capture*.go", "gate.go"}, []string{"sources", "new"}},
		{"doors", []string{"controller.go", "storesink.go", "lazy.go", "useall.go", "tellwrites*.go"},
			[]string{"sources", "informers", "new", "capture"}},
	}},
	{Folder: "lwtest", Rooms: []Room{
		{"truth", []string{"doc.go", "truth.go", "fields.go", "mutation.go", "projection*.go"}, nil},
		{"server", []string{"typed.go", "server.go", "definitions.go", "admission.go", "token.go", "fault.go", "outage.go"}, nil},
		{"subject", []string{"subject.go", "follows.go"}, []string{"truth"}},
		{"source", []string{"source.go", "follow.go", "list.go", "witness.go"}, []string{"truth", "subject"}},
		{"writable", []string{"writable.go"}, []string{"truth", "subject"}},
		{"collection", []string{"collection.go"}, []string{"truth", "subject"}},
	}},
	{Folder: "internal/registry", Rooms: []Room{
		{"json", []string{"json.go"}, nil},
		{"objects", []string{"kind.go", "family.go", "object.go", "openapi.go", "given.go", "builtin.go"}, []string{"json"}},
		{"writes", []string{"write.go", "options.go", "decode.go", "change.go", "delete.go", "patch.go", "manage.go",
			"scale.go", "namespace.go", "part.go", "pod.go", "token.go", "sent.go"}, []string{"json", "objects"}},
		{"collector", []string{"collect.go"}, []string{"objects", "writes"}},
	}},
	{Folder: "internal/apiserver", Rooms: []Room{
		{"objects", []string{"resource.go", "negotiate.go", "object.go"}, nil},
		{"answers", []string{"body.go", "wire.go", "cbor.go", "answer.go", "unit.go", "pace.go"}, []string{"objects"}},
		{"collection", []string{"collection.go"}, []string{"objects"}},
		{"server", []string{"server.go", "listen.go", "request.go", "fault.go", "discovery.go", "define.go",
			"define_names.go", "read.go", "write.go", "collect.go", "pods.go"}, []string{"objects", "answers", "collection"}},
	}},
}

// Hold returns an error that names each line of the packages in root that uses a room above its
// own. Those of other modules are held by HoldModule.
func Hold(root string) error {
	var held []Package
	for _, p := range Packages {
		if !p.Module {
			held = append(held, p)
		}
	}
	return hold(root, held)
}

// HoldModule is Hold for the package that is the module in root/folder. The module's own test calls
// it, so that the tests of lw need not load what the module depends on.
func HoldModule(root, folder string) error {
	for _, p := range Packages {
		if p.Module && p.Folder == folder {
			p.Folder = "."
			return hold(filepath.Join(root, folder), []Package{p})
		}
	}
	return fmt.Errorf("layers: no module %s", folder)
}

func hold(dir string, packages []Package) error {
	var folders []string
	for _, p := range packages {
		folders = append(folders, p.Folder)
	}
	loaded, err := Load(dir, folders, nil)
	if err != nil {
		return err
	}
	var wrong []error
	for i, p := range packages {
		wrong = append(wrong, p.check(loaded[i]))
	}
	return errors.Join(wrong...)
}

// check returns what is wrong with the files of a package.
func (p *Package) check(l Loaded) error {
	err := Check(p.Rooms, l.Arrows, l.Files)
	for _, r := range p.Rooms {
		for _, pattern := range r.Files {
			if !slices.ContainsFunc(l.Files, func(file string) bool { ok, _ := path.Match(pattern, file); return ok }) {
				err = errors.Join(err, fmt.Errorf("the room %s has no %s", r.Name, pattern))
			}
		}
	}
	most := maxKnot
	if p.Knot > 0 {
		most = p.Knot
	}
	if knots := Knots(l.Arrows); len(knots) > 0 && len(knots[0]) > most {
		err = errors.Join(err, fmt.Errorf("%d files need each other, and %d may: %s", len(knots[0]), most,
			strings.Join(knots[0], " ")))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Folder, err)
	}
	return nil
}

// HoldProduct returns an error that names each import, by a package of the module in root, of a
// folder that its own may not use.
func HoldProduct(root string) error {
	packages, err := golist.List(root, "./...")
	if err != nil {
		return err
	}
	folder := func(path string) string {
		if rest, ok := strings.CutPrefix(path, "github.com/go-lw/lw/"); ok {
			return rest
		}
		return "."
	}
	var arrows []Arrow
	var folders []string
	for _, p := range packages {
		folders = append(folders, folder(p.ImportPath))
		for _, path := range p.Imports {
			if strings.HasPrefix(path+"/", "github.com/go-lw/lw/") {
				arrows = append(arrows, Arrow{From: folder(p.ImportPath), To: folder(path)})
			}
		}
	}
	return Check(Product, arrows, folders)
}
