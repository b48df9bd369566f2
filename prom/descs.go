package prom

import "github.com/prometheus/client_golang/prometheus"

// descs has all of what desc has made.
var descs []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("lw_"+name, help, labels, nil)
	descs = append(descs, d)
	return d
}

func ofInformer(name, help string, more ...string) *prometheus.Desc {
	return desc("informer_"+name, help, append([]string{"informer"}, more...)...)
}

func ofHandler(name, help string, more ...string) *prometheus.Desc {
	return desc("handler_"+name, help, append([]string{"informer", "graph", "collection", "handler"}, more...)...)
}

func ofGraph(name, help string) *prometheus.Desc { return desc("graph_"+name, help, "graph") }

func ofCollection(name, help string) *prometheus.Desc {
	return desc("collection_"+name, help, "graph", "collection")
}

// testdata/metrics.txt is a scrape of them all.
var (
	informerSynced         = ofInformer("synced", "1 if a whole list is in the store, else 0.")
	informerUnserved       = ofInformer("unserved", "1 while nobody serves the kind, and the informer waits for it, else 0.")
	informerObjects        = ofInformer("objects", "Objects in the store.")
	informerVersion        = ofInformer("resource_version", "Resource version of the store, if it is a decimal number.")
	informerLastEvent      = ofInformer("last_event_timestamp_seconds", "When the last watch event came, in Unix time.")
	informerLastList       = ofInformer("last_list_timestamp_seconds", "When the last whole list became the content, in Unix time.")
	informerRequests       = ofInformer("requests_total", "Requests that have ended, by operation and HTTP status; none if there was no status.", "op", "code")
	informerRequestSeconds = ofInformer("request_seconds_total", "Time that the requests that have ended took; a watch is one request.", "op")
	informerRelists        = ofInformer("relists_total", "Whole lists that became the content, by why they were asked for; first for the first one.", "cause")
	informerEvents         = ofInformer("events_total", "Watch events by type.", "type")
	informerDecodeErrors   = ofInformer("decode_errors_total", "Objects of lists and events that could not be decoded or transformed.")
	informerSetAside       = ofInformer("set_aside", "Objects that are out of date or missing, because they cannot be decoded, transformed or indexed.")
	informerFailures       = ofInformer("failures", "Requests that failed in a row; 0 once the server makes progress.")
	informerEpochs         = ofInformer("epochs_total", "How often the server went back in time.")
	informerBackoff        = ofInformer("backoff_seconds_total", "Time spent in pauses after failures.")
	informerPacked         = ofInformer("packed_bytes", "Packed bytes of the objects that a limit may let go.")
	informerPackLimit      = ofInformer("pack_limit_bytes", "The limit on packed bytes, which other informers may share.")
	informerLetGo          = ofInformer("let_go", "Objects that have their metadata alone, since a limit has let them go.")
	informerFetches        = ofInformer("let_go_requests_total", "Requests for objects that were let go.")
	informerUnread         = ofInformer("let_go_unread_total", "Reads that have returned metadata alone.")
	informerBehind         = ofInformer("behind_seconds", "Time from the server's write to the store, half within and 99 % within, of ten minutes, by how it was measured.", "by")

	handlerPending = ofHandler("pending", "Changes that wait for the handler.")
	handlerCalls   = ofHandler("calls_total", "Calls of the handler's functions by type.", "type")
	handlerFolded  = ofHandler("folded_total", "Changes that waited so long that a call had only their net effect.")
	handlerPanics  = ofHandler("panics_total", "Panics of the handler's functions.")
	handlerLag     = ofHandler("lag_seconds", "Time from a change in the store to the end of the handler's call, of one change in 64.")

	graphSynced      = ofGraph("synced", "1 if all collections have synced, else 0.")
	graphPending     = ofGraph("pending", "Changes of the inputs that wait for the next step.")
	graphSteps       = ofGraph("steps_total", "Steps that have changed a collection.")
	graphStepSeconds = ofGraph("step_seconds_total", "Time that all steps took.")
	graphStepBegan   = ofGraph("step_began_timestamp_seconds", "When the step began that is in a call of a function, in Unix time.")

	collectionObjects   = ofCollection("objects", "Objects of the derived collection.")
	collectionComputed  = ofCollection("computed_total", "Calls of the collection's function.")
	collectionUnchanged = ofCollection("unchanged_total", "Calls whose result was the same as before.")
	collectionConflicts = ofCollection("conflicts", "Keys that several inputs make.")
	collectionSetAside  = ofCollection("set_aside", "Inputs whose function panicked or made a result without a name.")
)
