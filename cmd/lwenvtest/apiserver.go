package main

import (
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw/lwtest"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/early"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/front"
)

// runServer is kube-apiserver, as far as envtest and its suites know it.
func runServer(ctx context.Context, args []string, stderr io.Writer) error {
	flags := early.Parse(args)
	if ignored := flags.Beside(slices.Concat(early.Known, early.Silent)); len(ignored) > 0 {
		log := slog.New(slog.NewTextHandler(stderr, nil))
		log.InfoContext(ctx, "lwenvtest: kube-apiserver: ignored flags", "flags", ignored)
	}
	o, conf, err := serverOptions(flags)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	host := cmp.Or(flags.Last("bind-address"), "127.0.0.1")
	if err := early.Loopback(host); err != nil {
		return fmt.Errorf("kube-apiserver: --bind-address: %w", err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, cmp.Or(flags.Last("secure-port"), "0")))
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	return serveFront(early.WithParent(ctx), tls.NewListener(l, conf), o, stderr)
}

// serveFront serves until ctx ends.
func serveFront(ctx context.Context, l net.Listener, o front.Options, stderr io.Writer) error {
	// Kubernetes' packages log what they do at each start.
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	s, err := front.New(o)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Start(ctx); err != nil {
		return err
	}
	end, err := beginDay(s.Behind())
	if err != nil {
		return err
	}
	defer end()
	return early.Serve(ctx, l, s)
}

func serverOptions(flags early.Flags) (o front.Options, conf *tls.Config, err error) {
	dir := flags.Last("cert-dir")
	certFile, keyFile := flags.Last("tls-cert-file"), flags.Last("tls-private-key-file")
	if certFile == "" {
		certFile, keyFile = filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return o, nil, err
	}
	conf = serverTLS(cert)
	if file := flags.Last("client-ca-file"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return o, nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		o.Access.ClientCAs = x509.NewCertPool()
		if !o.Access.ClientCAs.AppendCertsFromPEM(pem) {
			return o, nil, fmt.Errorf("--client-ca-file: %s has no certificate", file)
		}
	}
	o.Access.Issuer = flags.Last("service-account-issuer")
	if file := flags.Last("service-account-signing-key-file"); file != "" {
		key, err := keyutil.PrivateKeyFromFile(file)
		if err != nil {
			return o, nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		if o.Access.Key, _ = key.(crypto.Signer); o.Access.Key == nil {
			return o, nil, fmt.Errorf("--service-account-signing-key-file: %s has a %T, which cannot sign", file, key)
		}
	}
	if file := flags.Last("token-auth-file"); file != "" {
		if o.Access.Tokens, err = readTokens(file); err != nil {
			return o, nil, fmt.Errorf("--token-auth-file: %w", err)
		}
	}
	if text := flags.Last("service-cluster-ip-range"); text != "" {
		text, _, _ = strings.Cut(text, ",") // a second one is of the other family
		if o.Services, err = netip.ParsePrefix(text); err != nil {
			return o, nil, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
	}
	return o, conf, nil
}

// readTokens reads lines of a token, the name and the UID of its user, and groups in quotes.
func readTokens(file string) (map[string]lwtest.User, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	tokens := map[string]lwtest.User{}
	for i, line := range lines {
		if len(line) < 3 || line[0] == "" {
			return nil, fmt.Errorf("%s: line %d needs a token, a user and a UID", file, i+1)
		}
		u := lwtest.User{Username: line[1], UID: line[2]}
		if len(line) > 3 && line[3] != "" {
			u.Groups = strings.Split(line[3], ",")
		}
		tokens[line[0]] = u
	}
	return tokens, nil
}

// serverTLS returns the configuration of a server that asks for client certificates. Package access
// verifies them.
func serverTLS(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}, ClientAuth: tls.RequestClientCert,
		MinVersion: tls.VersionTLS12,
	}
}
