/**
 * The shape of a service registration (`PUT /v1/agent/service/register`).
 *
 * @module
 */

import { list, map, object, type Shape } from "../http/decode.ts";

const MESH_GATEWAY = object({ Mode: "string" });

const CHECK = object({
  ID: "string",
  CheckID: "string",
  Name: "string",
  Status: "string",
  Notes: "string",
  Interval: "any",
  Timeout: "any",
  TTL: "any",
  TCP: "string",
  TCPUseTLS: "bool",
  HTTP: "string",
  Method: "string",
  Body: "string",
  Header: "any",
  DisableRedirects: "bool",
  TLSServerName: "string",
  TLSSkipVerify: "bool",
  UDP: "string",
  GRPC: "string",
  GRPCUseTLS: "bool",
  H2PING: "string",
  H2PingUseTLS: "bool",
  OSService: "string",
  Args: list("string"),
  AliasNode: "string",
  AliasService: "string",
  ServiceID: "string",
  DockerContainerID: "string",
  Shell: "string",
  OutputMaxSize: "number",
  SuccessBeforePassing: "number",
  FailuresBeforeWarning: "number",
  FailuresBeforeCritical: "number",
  DeregisterCriticalServiceAfter: "any",
});

const UPSTREAM = object({
  DestinationType: "string",
  DestinationPartition: "string",
  DestinationNamespace: "string",
  DestinationPeer: "string",
  DestinationName: "string",
  Datacenter: "string",
  LocalBindAddress: "string",
  LocalBindPort: "number",
  LocalBindSocketPath: "string",
  LocalBindSocketMode: "string",
  Config: "any",
  MeshGateway: MESH_GATEWAY,
});

export const PROXY: Shape = object({
  DestinationServiceName: "string",
  DestinationServiceID: "string",
  LocalServiceAddress: "string",
  LocalServicePort: "number",
  LocalServiceSocketPath: "string",
  Mode: "string",
  TransparentProxy: object({ OutboundListenerPort: "number", DialedDirectly: "bool" }),
  Config: "any",
  Upstreams: list(UPSTREAM),
  MeshGateway: MESH_GATEWAY,
  Expose: object({
    Checks: "bool",
    Paths: list(object({
      ListenerPort: "number",
      Path: "string",
      LocalPathPort: "number",
      Protocol: "string",
    })),
  }),
  AccessLogs: object({
    Enabled: "bool",
    DisableListenerLogs: "bool",
    Type: "string",
    Path: "string",
    JSONFormat: "string",
    TextFormat: "string",
  }),
  EnvoyExtensions: "any",
});

export const ADDRESS: Shape = object({ Address: "string", Port: "number" });

const COMMON: Readonly<Record<string, Shape>> = {
  Kind: "string",
  ID: "string",
  Name: "string",
  Tags: list("string"),
  Meta: map("string"),
  Address: "string",
  TaggedAddresses: map(ADDRESS),
  Port: "number",
  Ports: "any",
  SocketPath: "string",
  Check: CHECK,
  Checks: list(CHECK),
  Weights: object({ Passing: "number", Warning: "number" }),
  Token: "string",
  EnableTagOverride: "bool",
  Proxy: PROXY,
  Locality: object({ Region: "string", Zone: "string" }),
  Namespace: "string",
  Partition: "string",
};

const SIDECAR = object({
  ...COMMON,
  Connect: object({ Native: "bool", SidecarService: "any" }),
});

export const REGISTRATION: Shape = object({
  ...COMMON,
  Connect: object({ Native: "bool", SidecarService: SIDECAR }),
});
