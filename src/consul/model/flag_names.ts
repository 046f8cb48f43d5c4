/** Flags that messages name: `postern dataplane` has other names for some of them. @module */

export interface FlagNames {
  readonly servers: string;
  readonly node: string;
  readonly caFile: string;
  readonly caPath: string;
  /** The flags for CA certificates, as one text. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  readonly certAndKey: string;
  readonly serverName: string;
  readonly tokenText: string;
  /** The best way to give a token. */
  readonly token: string;
  readonly tenancy: string;
}

export const PROXY_FLAGS: FlagNames = {
  servers: "-servers",
  node: "-node",
  caFile: "-ca-file (CONSUL_CACERT)",
  caPath: "-ca-path (CONSUL_CAPATH)",
  ca: "-ca-file or -ca-path",
  cert: "-client-cert (CONSUL_CLIENT_CERT)",
  key: "-client-key (CONSUL_CLIENT_KEY)",
  certAndKey: "-client-cert and -client-key",
  serverName: "-tls-server-name (CONSUL_TLS_SERVER_NAME)",
  tokenText: "-token",
  token: "-token-file or CONSUL_HTTP_TOKEN",
  tenancy: "-namespace (CONSUL_NAMESPACE) and -partition (CONSUL_PARTITION)",
};

export const DATAPLANE_FLAGS: FlagNames = {
  servers: "-addresses",
  node: "-proxy-node-name",
  // A file or a directory.
  caFile: "-ca-certs (DP_CA_CERTS)",
  caPath: "-ca-certs (DP_CA_CERTS)",
  ca: "-ca-certs",
  cert: "-tls-cert (DP_TLS_CERT)",
  key: "-tls-key (DP_TLS_KEY)",
  certAndKey: "-tls-cert and -tls-key",
  serverName: "-tls-server-name (DP_TLS_SERVER_NAME)",
  tokenText: "-static-token",
  token: "-credential-type static and -static-token",
  tenancy: "-proxy-namespace and -proxy-partition",
};
