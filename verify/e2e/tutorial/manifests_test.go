package tutorial_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/verify/rig"
)

// The manifests of examples/cluster/controller are what a kube-apiserver accepts, and give the
// controller's account the rights that it needs, and no more.
func TestExampleManifests(t *testing.T) {
	if !*run {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it takes minutes where kube-apiserver is not built: -tutorial")
	}
	const script = `set -euo pipefail
go build -ldflags "-X k8s.io/component-base/version.gitVersion=v1.37.2" -o "$DESK/kubectl" ./upstream/kubectl/cmd/kubectl
export PATH="$DESK:$PATH" HOME="$DESK"
kubectl apply --validate=strict -f ../../examples/cluster/controller/crd.yaml
kubectl wait --for=condition=Established crd/websites.example.dev --timeout=2m
kubectl apply --validate=strict -f ../../examples/cluster/controller/deploy.yaml
echo == what there is
kubectl get -o name -f ../../examples/cluster/controller/deploy.yaml
echo == what it may do
can() { echo "$* $(kubectl auth can-i "$@" -n default --as=system:serviceaccount:default:website-controller || true)"; }
can watch websites.example.dev
can update websites.example.dev/status
can create configmaps
can update leases.coordination.k8s.io
can delete websites.example.dev
can get secrets
echo == end
`
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	desk := t.TempDir()
	e2e := rig.Must[string](t)(filepath.Abs(".."))
	cmd := exec.CommandContext(ctx, "go", "run", "./cmd", "serve", "kube", "bash", "-c", script)
	cmd.Dir, cmd.Env = e2e, append(cmd.Environ(), "DESK="+desk, "TMPDIR="+desk, "PWD="+e2e)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `== what there is
serviceaccount/website-controller
clusterrole.rbac.authorization.k8s.io/website-controller
clusterrolebinding.rbac.authorization.k8s.io/website-controller
role.rbac.authorization.k8s.io/website-controller
rolebinding.rbac.authorization.k8s.io/website-controller
deployment.apps/website-controller
== what it may do
watch websites.example.dev yes
update websites.example.dev/status yes
create configmaps yes
update leases.coordination.k8s.io yes
delete websites.example.dev no
get secrets no
== end
`
	if !strings.Contains(string(out), want) {
		t.Errorf("the server says\n%s\nwant in it\n%s", out, want)
	}
}
