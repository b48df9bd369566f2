package main

const (
	etcdPackage  = "./etcd"
	etcdWatch    = "etcd/watch.go"
	etcdEvents   = "etcd/watch_event.go"
	etcdSeen     = "etcd/fingerprint.go"
	etcdProgress = "etcd/progress.go"
	etcdErrors   = "etcd/errors.go"
)

// etcdBugs are of module etcd, as a fake server shows them. A real one does not start in a trial.
var etcdBugs = []bug{
	{name: "etcd: a member that has not reached the position is not noticed", run: "TestCreatedOlder", in: etcdPackage, edits: one(etcdWatch,
		"if w.reached = now; now >= w.position {", "if w.reached = now; now >= 0 {")},
	{name: "etcd: a member that lags is taken for a restored server", run: "TestCreatedOlder", in: etcdPackage, edits: one(etcdWatch,
		"	return w.c.testify(ctx, w.position, &lastSeen{})\n", "	return rewound(w.position, now, \"it lags\")\n")},
	{name: "etcd: a revision that goes back on a watch is not noticed", run: "TestProgressOlder", in: etcdPackage, edits: one(etcdWatch,
		"	case now < w.reached:\n", "	case now < 0:\n")},
	{name: "etcd: a member that lags sends a bookmark", run: "TestCreatedOlder", in: etcdPackage, edits: one(etcdWatch,
		"	case now < w.position:\n		return nil // the member lags\n", "")},
	{name: "etcd: progress before the watch is created is a bookmark", run: "TestProgressEarly", in: etcdPackage, edits: one(etcdWatch,
		"	case w.reached == 0:\n", "	case w.reached < 0:\n")},
	{name: "etcd: after progress that came early there is no bookmark soon", run: "TestProgressEarly", in: etcdPackage, edits: one(etcdWatch,
		"	if w.early {\n", "	if w.early && now < 0 {\n")},
	{name: "etcd: a silent server is waited for", run: "TestSilence", in: etcdPackage, edits: one(etcdProgress,
		"} else if time.Since(q.asked) >= h.every {", "} else if h.every < 0 {")},
	{name: "etcd: a slow reader is taken for a silent server", run: "TestSilence", in: etcdPackage, edits: one(etcdProgress,
		"return h.heard.Load() != q.heard || waiting == 0 || !h.start.Add(time.Duration(waiting)).Before(q.asked)", "return h.heard.Load() != q.heard && waiting >= 0")},
	{name: "etcd: the events of a transaction are shown one by one", run: "TestGroups", in: etcdPackage, edits: one(etcdEvents,
		"ev.More, ev.Open = next != 0, next == revision", "ev.More = next != 0")},
	{name: "etcd: the object before is never asked for", run: "TestWithoutPrevious", in: etcdPackage, edits: one(etcdWatch,
		"PrevKv: w.byLabels}", "PrevKv: false}")},
	{name: "etcd: the object before is always asked for", run: "TestWithoutPrevious", in: etcdPackage, edits: one(etcdWatch,
		"PrevKv: w.byLabels}", "PrevKv: true}")},
	{name: "etcd: a deletion whose object was compacted is left out", run: "TestWithoutPrevious", in: etcdPackage, edits: one(etcdEvents,
		"	case ev.PrevKv == nil:\n", "	case ev.PrevKv == nil && ev.Type == mvccpb.DELETE:\n	case ev.PrevKv == nil:\n")},
	{name: "etcd: a busy server does not say when to come back", run: "TestEnds", in: etcdPackage, edits: one(etcdErrors,
		"apierrors.NewTooManyRequests(text(err), 1)", "apierrors.NewTooManyRequests(text(err), 0)")},
	{name: "etcd: an error of the network is no net.Error", run: "TestEnds", in: etcdPackage, edits: one(etcdErrors,
		"		return &networkError{err}\n", "		return err\n")},
	{name: "etcd: the reason why a watch was refused is not read", run: "TestEnds", in: etcdPackage, edits: one(etcdErrors,
		"		if strings.Contains(reason, known.Error()) {", "		if reason == known.Error() {")},
	{name: "etcd: a server that is away is waited for in silence", run: "TestDial", in: etcdPackage, edits: one("etcd/reader.go",
		"grpc.WaitForReady(false)", "grpc.WaitForReady(true)")},
	{name: "etcd: an object loses its kind", run: "TestCodecs", in: etcdPackage, edits: one("etcd/codec.go",
		"	keepKind(obj, got.Ident)\n", "")},
	{name: "etcd: an encrypted value is taken for JSON", run: "TestCodecErrors", in: etcdPackage, edits: one("etcd/codec_kube.go",
		"	case bytes.HasPrefix(data, encryptedMagic):\n", "	case bytes.Equal(data, encryptedMagic):\n")},
	{name: "etcd: a write changes the caller's object", run: "TestBare", in: etcdPackage, edits: one("etcd/identity.go",
		"if out, ok = o.DeepCopyObject().(T); !ok {", "if out, ok = any(o).(T); !ok {")},
	{name: "etcd: a key that is gone stays a fingerprint", run: "TestLastSeen", in: etcdPackage, edits: one(etcdSeen,
		"		if bytes.Equal(l.keys[i].path, path) {\n			l.remove(i)\n", "		if bytes.Equal(l.keys[i].path, path) {\n")},
}
