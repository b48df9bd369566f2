package kinds

import (
	"fmt"
	"strings"
)

// An object is a custom resource as kubectl apply and a controller leave it: with the annotation of
// the last applied configuration, a spec, a status with conditions, and the fields that both own.
// It has 2.3 KiB of JSON.
const (
	apiVersion = "bench.example.com/v1"
	template   = `{"apiVersion":"` + apiVersion +
		`","kind":"%[1]s","metadata":{"name":"application-%[2]d","namespace":"team-%[3]d",` +
		`"uid":"7a1d3c52-9c1e-4b7e-8f6d-%012[2]d","resourceVersion":"%[4]d","generation":3,"creationTimestamp":"2026-03-05T11:20:33Z",` +
		`"labels":{"app.kubernetes.io/name":"application-%[2]d","app.kubernetes.io/managed-by":"platform","team":"team-%[3]d"},` +
		`"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"` + apiVersion +
		`\",\"kind\":\"%[1]s\",\"metadata\":{\"annotations\":{},` +
		`\"labels\":{\"app.kubernetes.io/managed-by\":\"platform\",\"app.kubernetes.io/name\":\"application-%[2]d\",\"team\":\"team-%[3]d\"},` +
		`\"name\":\"application-%[2]d\",\"namespace\":\"team-%[3]d\"},\"spec\":{\"image\":\"registry.example.com/shop/application-%[2]d:v1.14.2\",` +
		`\"replicas\":3,\"schedule\":\"*/15 * * * *\",\"source\":{\"path\":\"overlays/production\",\"repository\":\"https://git.example.com/shop/deploy.git\"}}}\n"},` +
		`"finalizers":["bench.example.com/cleanup"],` +
		`"managedFields":[{"manager":"kubectl-client-side-apply","operation":"Update","apiVersion":"` + apiVersion +
		`","time":"2026-03-05T11:20:33Z","fieldsType":"FieldsV1","fieldsV1":` +
		`{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}},"f:labels":{".":{},"f:team":{}}},"f:spec":{".":{},"f:replicas":{},"f:image":{},"f:source":{}}}},` +
		`{"manager":"controller","operation":"Update","apiVersion":"` + apiVersion +
		`","time":"2026-03-05T11:21:02Z","subresource":"status","fieldsType":"FieldsV1","fieldsV1":` +
		`{"f:status":{".":{},"f:observedGeneration":{},"f:ready":{},"f:conditions":{}}}}]},` +
		`"spec":{"replicas":3,"image":"registry.example.com/shop/application-%[2]d:v1.14.2","schedule":"*/15 * * * *",` +
		`"source":{"repository":"https://git.example.com/shop/deploy.git","path":"overlays/production"}},` +
		`"status":{"observedGeneration":3,"ready":%[5]d,"conditions":[` +
		`{"type":"Ready","status":"True","reason":"AllReplicasReady","message":"%[5]d replicas are ready: the workload has reached the desired generation, all pods have passed their checks, and traffic is routed to the new revision","lastTransitionTime":"2026-03-05T11:21:02Z"},` +
		`{"type":"Synced","status":"True","reason":"ReconcileSuccess","message":"the last reconciliation succeeded: all manifests of the source were applied, and nothing is left to prune","lastTransitionTime":"2026-03-05T11:20:41Z"}]}}`
)

// object returns the JSON of object i of a kind, at a version. An object of another version has
// another status.
func object(kind string, i, version int) string {
	return fmt.Sprintf(template, kind, i, i%4, version, version%7)
}

// event returns an event of a watch as a server writes it.
func event(typ, object string) string { return `{"type":"` + typ + `","object":` + object + "}\n" }

// bookmark returns the event that ends the initial events.
func bookmark(kind string, version int) string {
	return event("BOOKMARK", fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`,
		kind, apiVersion, version))
}

// list returns a whole list of n objects.
func list(kind string, n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = object(kind, i, firstVersion+i)
	}
	return fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		kind, apiVersion, firstVersion+n, strings.Join(items, ","))
}

// firstVersion is the version of the first object of a collection. The list of n objects has the
// version firstVersion+n.
const firstVersion = 1000
