package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-lw/lw/bench/internal/foreign"
	"github.com/go-lw/lw/internal/verify/rig"
)

// An operator is one of the field, and what it needs to start without its cluster.
type operator struct {
	name, module, version, command string
	// crds are patterns of files with CustomResourceDefinitions, by the module that has them; "" is
	// the operator's.
	crds map[string]string
	// proof has objects, of whose names NAME is a part, for which the operator makes those at made.
	proof string
	made  []string // paths of the API
	// start writes what the operator needs into dir, where it runs, and returns its arguments and
	// more of its environment. There are certificates in the folder certs.
	start func(dir, certs string) (args, env []string, err error)

	crdFiles []string
}

var operators = []operator{{
	name: "trainer", module: "github.com/kubeflow/trainer/v2", version: "v2.2.0",
	command: "./cmd/trainer-controller-manager",
	crds: map[string]string{
		"": "manifests/base/crds/trainer*.yaml", "sigs.k8s.io/jobset": "config/components/crd/bases/*.yaml",
	},
	proof: trainJob,
	made: []string{"/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/NAME",
		"/api/v1/namespaces/default/secrets/NAME-mpi-ssh-auth"},
	start: func(dir, certs string) (args, env []string, err error) {
		// controller-runtime's webhooks have their certificates in the folder for temporary files.
		serving := filepath.Join(dir, "k8s-webhook-server", "serving-certs")
		if err := os.CopyFS(serving, os.DirFS(certs)); err != nil {
			return nil, nil, err
		}
		port, err := rig.FreePort()
		if err != nil {
			return nil, nil, err
		}
		config := filepath.Join(dir, "config.yaml")
		return []string{"--config=" + config}, []string{"TMPDIR=" + dir},
			os.WriteFile(config, fmt.Appendf(nil, trainerConfig, port), 0o666)
	},
}, {
	name: "cloudnative-pg", module: "github.com/cloudnative-pg/cloudnative-pg", version: "v1.30.0",
	command: "./cmd/manager",
	crds:    map[string]string{"": "config/crd/bases/*.yaml"},
	proof:   pgCluster,
	made:    []string{"/api/v1/namespaces/default/services/NAME-rw", "/api/v1/namespaces/default/secrets/NAME-app"},
	start: func(dir, certs string) (args, env []string, err error) {
		port, err := rig.FreePort()
		if err != nil {
			return nil, nil, err
		}
		// It looks for the binaries that it copies to its pods.
		if err := os.MkdirAll(filepath.Join(dir, "operator"), 0o777); err != nil {
			return nil, nil, err
		}
		err = os.WriteFile(filepath.Join(dir, "operator", "manager_amd64"), []byte("operator"), 0o666)
		return []string{"controller", "--metrics-bind-address=0", fmt.Sprint("--webhook-port=", port)},
			[]string{"WEBHOOK_CERT_DIR=" + certs, "OPERATOR_NAMESPACE=default", "OPERATOR_IMAGE_NAME=example.com/operator",
				"PLUGIN_SOCKET_DIR=" + dir}, err
	},
}}

const trainerConfig = `apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
health: {healthProbeBindAddress: "0"}
metrics: {bindAddress: "0", secureServing: false}
webhook: {port: %d}
leaderElection: {leaderElect: false}
certManagement: {enable: false}
`

// A TrainJob of MPI has a JobSet, a ConfigMap and a Secret.
const trainJob = `apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: NAME, namespace: default}
spec:
  mlPolicy:
    numNodes: 1
    mpi: {numProcPerNode: 1, mpiImplementation: OpenMPI, sshAuthMountPath: /home/mpi/.ssh, runLauncherAsNode: false}
  template:
    spec:
      replicatedJobs:
      - name: launcher
        template: {spec: {template: {spec: {containers: [{name: node, image: example.com/mpi}]}}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: example.com/mpi}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: NAME, namespace: default}
spec: {runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: NAME}}
`

const pgCluster = `apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata: {name: NAME, namespace: default}
spec:
  instances: 1
  imageName: example.com/postgresql:17.5
  storage: {size: 1Gi}
`

// binary is where the operator is that go or lwbuild has built.
func (o *operator) binary(bin string, lw bool) string {
	if lw {
		return filepath.Join(bin, o.name+"-lw")
	}
	return filepath.Join(bin, o.name)
}

// tools are the commands that are built in this repository, by their folder.
var tools = []string{"lwbuild", "lwenvtest"}

// build builds the operator either way, from a copy of its module in dir, and what else is not in
// bin.
func (o *operator) build(bin, dir string) error {
	for _, name := range tools {
		to := filepath.Join(bin, name)
		if has(to) {
			continue
		}
		_, _, err := foreign.Command(filepath.Join("..", "cmd", name), nil, "go", "build", "-o", to, ".")
		if err != nil {
			return err
		}
	}
	from, err := foreign.Fetch(o.module, o.version, dir)
	if err != nil {
		return err
	}
	for lw, build := range map[bool][]string{false: {"go", "build"}, true: {filepath.Join(bin, "lwbuild")}} {
		if to := o.binary(bin, lw); !has(to) {
			args := append(build[1:], "-o", to, o.command)
			if _, _, err := foreign.Command(dir, nil, build[0], args...); err != nil {
				return err
			}
		}
	}
	changed, err := foreign.Changed(from, dir)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("lwbuild has changed %q", changed)
	}
	for module, pattern := range o.crds {
		root := dir
		if module != "" {
			out, _, err := foreign.Command(dir, []string{"GOFLAGS=-mod=mod"}, "go", "list", "-m", "-f", "{{.Dir}}", module)
			if err != nil {
				return err
			}
			root = strings.TrimSpace(string(out))
		}
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("there is no %s in %s: %w", pattern, root, err)
		}
		o.crdFiles = append(o.crdFiles, files...)
	}
	return nil
}

func has(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
