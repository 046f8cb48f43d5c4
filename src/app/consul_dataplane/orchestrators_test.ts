import { strict as assert } from "node:assert";
import { test } from "node:test";
import { readDataplane } from "../../../test/kit/process/dataplane_options.ts";
import { DATAPLANE_FLAGS } from "../../consul/mod.ts";

const words = (text: string) => text.split(" ").filter((word) => word !== "");

test("dataplaneOptions() takes the flags and variables that consul-k8s gives to a sidecar", () => {
  const argv = words(
    "-addresses consul-server.consul.svc -envoy-admin-bind-address=127.0.0.1 " +
      "-consul-dns-bind-addr=127.0.0.1 -xds-bind-addr=127.0.0.1 -grpc-port=8502 " +
      "-proxy-service-id-path=/consul/connect-inject/proxyid -log-level= -log-json=false " +
      "-envoy-concurrency=2 -graceful-addr=127.0.0.1 -credential-type=login " +
      "-login-auth-method=consul-k8s-auth-method " +
      "-login-bearer-token-path=/var/run/secrets/kubernetes.io/serviceaccount/token " +
      "-tls-server-name=server.dc1.consul -ca-certs=/consul/connect-inject/consul-ca.pem " +
      "-envoy-ready-bind-port=21000 -graceful-port=20600 -shutdown-drain-listeners " +
      "-shutdown-grace-period-seconds=30 -graceful-shutdown-path=/graceful_shutdown " +
      "-startup-grace-period-seconds=0 -graceful-startup-path=/graceful_startup " +
      "-telemetry-prom-scrape-path=/metrics -telemetry-prom-merge-port=20100 " +
      "-telemetry-prom-service-metrics-url=http://127.0.0.1:8080/metrics " +
      "-telemetry-prom-ca-certs-file=/ca -telemetry-prom-cert-file=/c -telemetry-prom-key-file=/k " +
      "-consul-dns-bind-port=8600 -- --base-id 7",
  );
  const { proxy, lifecycle, ready, metrics } = readDataplane(argv, {
    env: {
      TMPDIR: "/consul/connect-inject",
      NODE_NAME: "k8s-1",
      HOST_IP: "10.0.0.1",
      DP_SERVICE_NODE_NAME: "k8s-1-virtual",
      DP_ENVOY_READY_BIND_ADDRESS: "10.1.2.3",
      POD_NAME: "web-1",
      POD_NAMESPACE: "default",
      POD_UID: "u-1",
      DP_CREDENTIAL_LOGIN_META: "pod=default/web-1",
      DP_CREDENTIAL_LOGIN_META1: "pod=default/web-1",
      DP_CREDENTIAL_LOGIN_META2: "pod-uid=u-1",
    },
    files: { "/consul/connect-inject/proxyid": "web-1-web-sidecar-proxy" },
  });
  assert.deepEqual(proxy.serversFlags, {
    names: DATAPLANE_FLAGS,
    servers: "consul-server.consul.svc",
    node: "k8s-1-virtual",
    grpcPort: 8_502,
    httpPort: 8_501,
    tlsDisabled: false,
    tlsInsecure: false,
    serverWatchDisabled: false,
    tlsServerName: "server.dc1.consul",
    caPath: "/consul/connect-inject/consul-ca.pem",
    login: {
      authMethod: "consul-k8s-auth-method",
      bearerToken: "",
      bearerTokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token",
      datacenter: "",
      namespace: "",
      partition: "",
      meta: { pod: "default/web-1", "pod-uid": "u-1" },
    },
  });
  assert.equal(proxy.mode.kind === "agent" && proxy.mode.id, "web-1-web-sidecar-proxy");
  assert.deepEqual([proxy.workers, proxy.logLevel], [2, "info"]);
  assert.deepEqual(ready, { host: "10.1.2.3", port: 21_000 });
  assert.deepEqual([lifecycle.port, lifecycle.shutdownGraceMs], [20_600, 30_000]);
  assert.equal(lifecycle.drainListeners, true);
  assert.equal(metrics.serviceUrl?.href, "http://127.0.0.1:8080/metrics");
  assert.deepEqual(metrics.tls, { ca: "/ca", cert: "/c", key: "/k" });
  assert.deepEqual(proxy.warnings.map((line) => line.replace(/ does nothing.*/, "")), [
    "-xds-bind-addr",
    "-consul-dns-bind-addr",
    "-consul-dns-bind-port",
    '"--base-id 7" after --',
  ]);
});

test("dataplaneOptions() takes the file that consul-ecs writes", () => {
  const file = {
    consul: {
      addresses: "consul.dc1",
      grpcPort: 8_503,
      serverWatchDisabled: true,
      tls: { disabled: false, caCertsPath: "/consul/ca-cert.pem", tlsServerName: "consul.dc1" },
      credentials: { type: "static", static: { token: "test-token-123" } },
    },
    proxy: { nodeName: "arn:aws:ecs:x:1:cluster/c", id: "web-1", namespace: "", partition: "" },
    xdsServer: { bindAddress: "127.0.0.1" },
    envoy: { readyBindAddress: "127.0.0.1", readyBindPort: 23_000 },
    logging: { logLevel: "TRACE" },
  };
  const path = "/consul/consul-dataplane.json";
  const { proxy, ready } = readDataplane(["-config-file", path], {
    files: { [path]: JSON.stringify(file) },
  });
  assert.deepEqual(proxy.serversFlags, {
    names: DATAPLANE_FLAGS,
    servers: "consul.dc1",
    node: "arn:aws:ecs:x:1:cluster/c",
    grpcPort: 8_503,
    httpPort: 8_501,
    tlsDisabled: false,
    tlsInsecure: false,
    serverWatchDisabled: true,
    caPath: "/consul/ca-cert.pem",
    tlsServerName: "consul.dc1",
    token: "test-token-123",
  });
  assert.deepEqual(ready, { host: "127.0.0.1", port: 23_000 });
  assert.equal(proxy.logLevel, "trace");
  assert.equal(proxy.warnings.length, 1);
});

test("dataplaneOptions() takes every kind of value in the file", () => {
  const { proxy, lifecycle } = readDataplane([
    ...words("-proxy-id web-proxy -proxy-node-name vm-1"),
    "-config-file",
    "c.json",
  ], {
    files: {
      "c.json": JSON.stringify({
        consul: {
          addresses: "exec=/consul/discover",
          credentials: {
            type: "login",
            login: { authMethod: "iam", bearerTokenPath: "/b", meta: { "task/id": "t-1" } },
          },
        },
        envoy: { concurrency: null, gracefulPort: 20_600 },
        telemetry: { prometheus: { retentionTime: 60_000_000_000 } },
      }),
    },
  });
  assert.equal(proxy.serversFlags?.login?.meta["task/id"], "t-1");
  assert.equal(proxy.serversFlags?.tlsServerName, undefined);
  assert.deepEqual([proxy.workers, lifecycle.port], [1, 20_600]);
});
