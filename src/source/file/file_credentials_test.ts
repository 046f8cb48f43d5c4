import assert from "node:assert/strict";
import { test } from "node:test";
import { type CredentialsPlan } from "../../secrets/mod.ts";
import { formatPath, type Problem } from "../../base/schema.ts";
import { fileCredentials, type FileCredentialsInput, fileUpstreamId } from "./file_credentials.ts";

const MESH = { certFile: "a.pem", keyFile: "a.key", rootsFile: "roots.pem" };
const FILE = { source: "file", cert: "web.pem", key: "web.key", ca: "roots.pem" };
const ROOTS = { certificate: { source: "none" }, validation: { source: "file", ca: "db.pem" } };
const DB = fileUpstreamId("db");
const TO_DB = { name: "db", spiffeIds: ["spiffe://m/db"] };
const SDS = { sds_cluster: { address: "unix:///run/sds.sock" } };

function read(input: Partial<FileCredentialsInput>) {
  const problems: Problem[] = [];
  const { plans, serverNames } = fileCredentials(
    { defaultAction: "allow", upstreams: [], ...input },
    problems,
    {
      file: "/etc/postern/web.json",
      service: "web",
      env: {},
    },
  );
  return {
    plans,
    serverNames,
    problems: problems.map(({ path, message }) => `${formatPath(path)} ${message}`),
  };
}

/** Names of a plan's secrets. */
function namesOf(plan: CredentialsPlan | undefined): readonly string[] {
  assert.ok(plan, "there is a plan");
  return [...plan.certificates, ...plan.validation ? [plan.validation.secret] : []]
    .map(({ name }) => name);
}

for (
  const [name, input, inbound, upstream, keys] of [
    ["the mesh's for everything", { credentials: MESH, trustDomain: "m" }, null, undefined, [
      "mesh",
    ]],
    ["any for everything", { credentials: FILE }, "default", "default", ["default"]],
    [
      "the listener's own beside the mesh's",
      {
        credentials: MESH,
        trustDomain: "m",
        inbound: { tls: FILE },
      },
      "inbound",
      undefined,
      ["mesh", "inbound"],
    ],
    [
      "the upstream's own beside the rest",
      {
        credentials: FILE,
        upstreams: [{ ...TO_DB, tls: ROOTS }],
      },
      "default",
      DB,
      ["default", DB],
    ],
    [
      "everything of its own",
      {
        inbound: { tls: FILE },
        upstreams: [{ ...TO_DB, tls: ROOTS }],
      },
      "inbound",
      DB,
      ["inbound", DB],
    ],
  ] as const
) {
  test(`fileCredentials() takes ${name}`, () => {
    const { plans, problems } = read({ inbound: {}, upstreams: [TO_DB], ...input });
    assert.deepEqual(problems, []);
    assert.equal(plans.inbound, inbound);
    assert.equal(plans.upstreams.get(DB), upstream);
    assert.deepEqual(Object.keys(plans.plans), keys);
  });
}

test("fileCredentials() fills in from the file's own what a listener leaves out", () => {
  const { plans, problems } = read({
    credentials: FILE,
    inbound: { tls: { certificate: { source: "file", cert: "own.pem", key: "own.key" } } },
    upstreams: [{ ...TO_DB, tls: { validation: { source: "file", ca: "db.pem" } } }],
  });
  assert.deepEqual(problems, []);
  assert.deepEqual(namesOf(plans.plans.inbound), ["own.pem", "roots.pem"]);
  assert.deepEqual(namesOf(plans.plans[DB]), ["web.pem", "db.pem"]);
  for (const key of ["inbound", DB]) {
    const plan = plans.plans[key];
    const sources = [...plan?.certificates ?? [], plan?.validation?.secret].map((ref) =>
      ref?.source.kind
    );
    assert.deepEqual(sources, ["spec", "spec"], "nothing is left to an agent");
  }
});

test("fileCredentials() leaves to the mesh's files what a listener leaves out", () => {
  const { plans, problems } = read({
    credentials: MESH,
    trustDomain: "m",
    inbound: { tls: { certificate: { source: "file", cert: "own.pem", key: "own.key" } } },
  });
  assert.deepEqual(problems, []);
  assert.equal(plans.plans.inbound?.validation?.secret.source.kind, "consul");
});

for (
  const [name, input, want] of [
    ["what nobody fills in", {
      inbound: { tls: { certificate: { source: "file", cert: "a.pem", key: "a.key" } } },
    }, ['inbound.tls leaves its certificate or validation to "credentials", which is missing']],
    ["an upstream that nobody fills in", {
      upstreams: [{ ...TO_DB, tls: { validation: { source: "file", ca: "db.pem" } } }],
    }, [
      'upstreams[0].tls leaves its certificate or validation to "credentials", which is missing',
    ]],
    ["a listener with nothing at all", { inbound: {} }, [
      'credentials is missing; it may only be where everything has "tls" of its own',
    ]],
    ["an upstream with nothing at all", { inbound: { tls: FILE }, upstreams: [TO_DB] }, [
      'credentials is missing; it may only be where everything has "tls" of its own',
    ]],
    ["files of the mesh without its name", { credentials: MESH }, [
      "trustDomain is missing: certFile, keyFile and rootsFile are those of a mesh",
    ]],
    ["half of the mesh's files", { credentials: { certFile: "a" }, trustDomain: "m" }, [
      "credentials.keyFile is missing",
      "credentials.rootsFile is missing",
    ]],
    ["an upstream that asks nobody", {
      upstreams: [{ ...TO_DB, tls: { ...ROOTS, validation: { source: "none" } } }],
    }, [
      "upstreams[0].tls.validation cannot be none for an upstream; to accept any server, say " +
      '{ "source": "file", "acceptUntrusted": true }',
    ]],
    ["a bad SDS server, once", {
      sds: { sds_cluster: { address: "nowhere" } },
      inbound: {
        tls: {
          certificate: { source: "sds", cluster: "sds_cluster", name: "a" },
          validation: { source: "none" },
        },
      },
    }, [
      "sds.sds_cluster.address must be host:port or unix:///path, with a port from 1 to 65535",
    ]],
  ] as const
) {
  test(`fileCredentials() refuses ${name}`, () => assert.deepEqual(read(input).problems, want));
}

test("fileCredentials() requires client certificates with credentials of the whole proxy", () => {
  const { plans } = read({ credentials: FILE });
  assert.equal(plans.plans.default?.requireClientCertificate, true);
});

test("fileCredentials() reads what an upstream's callers must speak", () => {
  const { plans, problems } = read({
    upstreams: [{ ...TO_DB, tls: ROOTS, listenerTls: FILE }],
  });
  assert.deepEqual(problems, []);
  assert.equal(plans.listeners.get(DB), `${DB} listener`);
  assert.deepEqual(namesOf(plans.plans[`${DB} listener`]), ["web.pem", "roots.pem"]);
});

test("fileCredentials() takes the server name of an Envoy context", () => {
  const { serverNames } = read({
    upstreams: [{
      ...TO_DB,
      tls: {
        sni: "db.example",
        common_tls_context: { validation_context: { trusted_ca: { filename: "db.pem" } } },
      },
    }],
  });
  assert.deepEqual([...serverNames], [["db", "db.example"]]);
});

/** Every path of a file in a plan. */
function filesOf(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  const own = "path" in value && typeof value.path === "string" ? [value.path] : [];
  return [...own, ...Object.values(value).flatMap(filesOf)];
}

for (
  const [name, input, want] of [
    ["the mesh's files", { credentials: MESH, trustDomain: "m" }, [
      "/etc/postern/a.pem",
      "/etc/postern/a.key",
      "/etc/postern/roots.pem",
    ]],
    ["a listener's", { inbound: { tls: { ...FILE, cert: "/abs/web.pem", key: "../web.key" } } }, [
      "/abs/web.pem",
      "/etc/web.key",
      "/etc/postern/roots.pem",
    ]],
    ["Envoy's secret files and directories", {
      inbound: {
        tls: {
          common_tls_context: {
            tls_certificate_sds_secret_configs: [{
              name: "web",
              sds_config: { path_config_source: { path: "web.yaml" } },
            }],
          },
        },
      },
    }, ["/etc/postern/web.yaml"]],
    ["those of an SDS server, and no socket", {
      sds: {
        sds_cluster: { address: "unix:///run/sds.sock", tls: { ca: "sds.pem", serverName: "s" } },
      },
      inbound: {
        tls: {
          certificate: { source: "sds", cluster: "sds_cluster", name: "web" },
          validation: { source: "none" },
        },
      },
    }, ["/etc/postern/sds.pem", "/run/sds.sock"]],
  ] as const
) {
  test(`fileCredentials() means ${name} from where the configuration is`, () => {
    const { plans, problems } = read(input);
    assert.deepEqual(problems, []);
    assert.deepEqual(filesOf(plans.plans), want);
  });
}

test("fileCredentials() passes on what is taken otherwise than it reads", () => {
  const { plans, problems } = read({
    sds: SDS,
    inbound: {
      tls: {
        disable_stateless_session_resumption: true,
        common_tls_context: {
          tls_certificates: [{
            certificate_chain: { filename: "a.pem" },
            private_key: { filename: "a.key" },
          }],
        },
      },
    },
  });
  assert.deepEqual(problems, []);
  assert.equal(plans.warnings.length, 1);
});
