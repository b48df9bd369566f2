package servers

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a file with which kubectl, and whatever else reads a kubeconfig, is the
// admin of s. Nobody but its owner may read it.
func (s *Server) WriteKubeconfig(file string) error {
	const name = "lw-e2e"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: s.URL, CertificateAuthorityData: s.CA}
	config.AuthInfos["admin"] = &api.AuthInfo{Token: AdminToken}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: "admin", Namespace: "default"}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("servers: kubeconfig: %w", err)
	}
	return nil
}
