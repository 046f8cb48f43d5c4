import { strict as assert } from "node:assert";
import { X509Certificate } from "node:crypto";
import { test } from "node:test";
import { fakeAdminSecrets, WEB_FILE } from "../../../test/kit/admin/admin_secrets.ts";
import { fakeAdminView } from "../../../test/kit/admin/admin_view.ts";
import { keyPieces, piecesIn } from "../../../test/kit/certs/key_pieces.ts";
import { createAdmin } from "../admin.ts";
import { PATHS } from "../home.ts";

const LOCAL = { host: "127.0.0.1:19000" };
const DAY_MS = 86_400_000;
const GET_PATHS = ["/", ...PATHS.filter(([, , method]) => !method).map(([path]) => path)]
  // A stream without an end.
  .filter((path) => path !== "/tap");

function admin() {
  const secrets = fakeAdminSecrets();
  const app = createAdmin(secrets.view, { boundHost: "127.0.0.1" });
  const ask = (path: string, headers: Record<string, string> = {}) =>
    app.request(path, { headers: { ...LOCAL, ...headers } });
  const text = async (path: string, headers?: Record<string, string>) =>
    await (await ask(path, headers)).text();
  const json = async (path: string) => JSON.parse(await text(path));
  return { ...secrets, ask, text, json };
}

for (const path of GET_PATHS) {
  test(`admin ${path} shows no piece of any key`, async () => {
    const { text, keyPems } = admin();
    const pieces = keyPieces(keyPems);
    for (const query of ["", "?format=json", "?format=prometheus", "?format=text"]) {
      assert.deepEqual(piecesIn(await text(`${path}${query}`), pieces), [], `${path}${query}`);
    }
  });
}

test("piecesIn() finds a key whole, in JSON and in part", () => {
  const { keyPems: [pem = ""] } = fakeAdminSecrets();
  const pieces = keyPieces([pem]);
  const line = pem.split("\n")[1] ?? "";
  assert.ok(piecesIn(`{"a": "${line}"}`, pieces).length > 0);
  assert.ok(piecesIn(JSON.stringify({ pem }), pieces).length > 1);
  assert.ok(piecesIn(line.slice(7, 50), pieces).length > 0);
  assert.deepEqual(piecesIn(line.slice(0, 31), pieces), []);
});

test("admin /certs lists every certificate and CA in use, with Envoy's fields", async () => {
  const { json, web, view } = admin();
  const { certificates, leaf } = await json("/certs");
  assert.equal(leaf.daysLeft, 2.99);
  const names = certificates.map(({ name, source }: Record<string, string>) => [name, source]);
  assert.deepEqual(names, [
    ["leaf", "consul"],
    ["roots", "consul"],
    [WEB_FILE, `file ${WEB_FILE}`],
    ["db-cert", "sds sds_cluster"],
    ["roots", "sds sds_cluster"],
  ]);
  const [, meshRoots, file, sds, bundles] = certificates;
  assert.deepEqual([file.listeners, file.upstreams], [["inbound"], []]);
  assert.deepEqual([sds.listeners, sds.upstreams], [[], ["service:default/default/db"]]);
  assert.deepEqual(meshRoots.upstreams, ["service:default/default/db"]);
  assert.deepEqual(bundles.listeners, ["inbound"]);
  assert.deepEqual(file.ca_cert, []);
  const x509 = new X509Certificate(web.certPem);
  const [shown] = file.cert_chain;
  assert.equal(shown.path, WEB_FILE);
  // Deno's X509Certificate leaves a leading zero out.
  const serial = x509.serialNumber.toLowerCase();
  assert.equal(shown.serial_number, serial.padStart(serial.length + serial.length % 2, "0"));
  assert.deepEqual(shown.subject_alt_names, [{ uri: web.uris[0] }]);
  assert.equal(Date.parse(shown.valid_from), x509.validFromDate.getTime());
  assert.equal(Date.parse(shown.expiration_time), x509.validToDate.getTime());
  assert.doesNotMatch(shown.valid_from, /\./);
  assert.equal(shown.days_until_expiration, "29");
  assert.equal(shown.near_expiry, false);
  assert.equal(sds.cert_chain[0].path, "<inline>");
  assert.equal(bundles.ca_cert[0].trust_domain, "other.example");

  await view.clock.advance(21 * DAY_MS);
  const later = (await json("/certs")).certificates;
  assert.equal(later[2].cert_chain[0].near_expiry, true);
  assert.equal(later[2].cert_chain[0].days_until_expiration, "8");
  assert.equal(later[3].cert_chain[0].days_until_expiration, "0");
  assert.ok(later[3].cert_chain[0].days_left < -20);
});

test("admin /certs shows an agent's leaf as near expiry in the last twelfth of its lifetime", async () => {
  const { view, json } = admin();
  const { notBeforeMs, notAfterMs } = view.snapshot()?.credentials ?? assert.fail();
  const isNear = async () => (await json("/certs")).certificates[0].cert_chain[0].near_expiry;
  const twelfth = (notAfterMs - notBeforeMs) / 12;
  await view.clock.advance(notAfterMs - twelfth - DAY_MS / 24 - view.clock.now());
  assert.equal(await isNear(), false);
  await view.clock.advance(DAY_MS / 12);
  assert.equal(await isNear(), true);
});

test("admin /certs says what renews each certificate, when, and whether that would work", async () => {
  const { view, json } = admin();
  const source = view.source() ?? assert.fail();
  const watch = { name: "leaf web", mode: "long", failures: 0, lastError: undefined } as const;
  const lastSuccessMs = view.clock.monotonic();
  await view.clock.advance(3_000);
  const renewals = async () => {
    const { certificates } = await json("/certs");
    return certificates.map(({ renewal }: { renewal?: { text: string } }) => renewal?.text);
  };
  const { notBeforeMs, notAfterMs } = view.snapshot()?.credentials ?? assert.fail();
  const at = (share: number) =>
    new Date(notBeforeMs + share * (notAfterMs - notBeforeMs)).toISOString().slice(0, 16);
  const due = `due ${at(0.6)}Z to ${at(0.9)}Z`;
  view.source = () => ({ ...source, watches: [{ ...watch, lastSuccessMs }] });
  const [leaf, roots, file, sds] = await renewals();
  assert.equal(leaf, `renewed by the agent's watch, last answer 3s ago, ${due}`);
  assert.equal(roots, undefined);
  assert.match(file ?? "", new RegExp(`^renewed by the watch of file ${WEB_FILE}, `));
  assert.match(sds ?? "", /^renewed by the stream of sds sds_cluster, /);

  const lastError = "Permission denied";
  const failing = { ...watch, lastSuccessMs: undefined, failures: 2, lastError };
  view.source = () => ({ ...source, watches: [failing] });
  const [broken] = (await json("/certs")).certificates;
  assert.equal(broken.renewal.works, false);
  assert.equal(
    broken.renewal.text,
    `renewed by the agent's watch, no answer yet, ${due}, it fails: ${lastError}`,
  );
});

test("admin /certs names the files of a configuration without an agent", async () => {
  const { view, json } = admin();
  const { credentials } = view.snapshot() ?? {};
  const status = view.source();
  const report = view.secretsReport();
  Object.assign(view, {
    source: () => ({ ...status, kind: "file" }),
    secretsReport: () => ({
      events: [],
      statuses: [
        ...report.statuses,
        {
          ...report.statuses[0],
          name: "own.pem",
          source: "file /own.pem",
          certificate: { serial: credentials?.serial },
        },
        { ...report.statuses[2], key: "spec:roots", name: "roots.pem", source: "file /roots.pem" },
      ],
    }),
  });
  const [leaf, roots] = (await json("/certs")).certificates;
  assert.deepEqual([leaf.name, leaf.cert_chain[0].path], ["own.pem", "/own.pem"]);
  assert.deepEqual([roots.name, roots.ca_cert[0].path], ["roots.pem", "/roots.pem"]);
});

test("admin /config_dump has secrets in Envoy's shape, keys redacted", async () => {
  const { json, web } = admin();
  const dump = await json("/config_dump");
  const section = dump.configs.find((one: Record<string, unknown>) =>
    one["@type"] === "type.googleapis.com/envoy.admin.v3.SecretsConfigDump"
  );
  const active = section.dynamic_active_secrets;
  assert.deepEqual(active.map(({ name }: { name: string }) => name), [
    WEB_FILE,
    "db-cert",
    "roots",
  ]);
  const { tls_certificate } = active[0].secret;
  assert.deepEqual(tls_certificate.private_key, { inline_string: "[redacted]" });
  assert.equal(tls_certificate.certificate_chain.inline_string, web.certPem);
  assert.equal(active[1].version_info, "7");
  assert.ok(Date.parse(active[1].last_updated) > 0);
  const spiffe = active[2].secret.validation_context.custom_validator_config.typed_config;
  assert.equal(spiffe.trust_domains[0].name, "other.example");
  const [late] = section.dynamic_warming_secrets;
  assert.deepEqual([late.name, late.version_info, late.last_updated], [
    "late",
    "uninitialized",
    null,
  ]);
  assert.match(late.error_state.details, /connection refused/);

  const { certificates, validations, ownCredentials } = dump.snapshot;
  assert.equal(certificates["spec:web"].certPem, web.certPem);
  assert.ok(!("keyPem" in certificates["spec:web"]));
  assert.equal(validations["sds:roots"].validation.rules.matchers[0].type, "uri");
  assert.deepEqual(ownCredentials.inbound.certificates, ["spec:web"]);
});

test("admin /config_dump does not show a field of a certificate that is not listed", async () => {
  const { view, web, json } = admin();
  const snapshot = view.snapshot();
  assert.ok(snapshot);
  Object.assign(view, {
    snapshot: () => ({ ...snapshot, certificates: { "spec:web": { ...web, later: "unseen" } } }),
  });
  assert.doesNotMatch(JSON.stringify(await json("/config_dump")), /unseen/);
});

test("admin /config_dump hides values of fields with the name of a secret", async () => {
  const { view, keyPems: [, keyPem = ""], json } = admin();
  const body = keyPem.replace(/-----[^-]+-----/g, "");
  Object.assign(view.info, {
    options: { secret: body, private_key: { inline_string: body }, one: { secret: [body] } },
  });
  assert.deepEqual((await json("/config_dump")).options, {
    secret: "(not shown)",
    private_key: "(not shown)",
    one: { secret: "(not shown)" },
  });
});

test("admin / shows secrets, failing ones first, and the listeners that wait for them", async () => {
  const { text, view } = admin();
  const page = await text("/");
  assert.match(page, /<h2 id="secrets">Secrets<\/h2>/);
  const secrets = page.slice(page.indexOf('id="secrets"'));
  const rows = ["late", "web.pem", "db-cert"].map((name) => secrets.indexOf(`${name}<span`));
  assert.ok(rows.every((at) => at > 0) && rows[0] === Math.min(...rows), String(rows));
  assert.match(page, /connection refused &lt;by&gt;/);
  assert.match(page, /secrets of service:default\/default\/late/);
  assert.doesNotMatch(page, /: soon/);
  await view.clock.advance(25 * DAY_MS);
  const later = await text("/");
  assert.match(later, /, expires in \d+d\d*h?: soon/);
  assert.match(later, /, expired \d+d\d*h? ago: EXPIRED/);
});

test("admin / has no section about secrets when the agent gives every credential", async () => {
  const app = createAdmin(fakeAdminView(), { boundHost: "127.0.0.1" });
  const page = await (await app.request("/", { headers: LOCAL })).text();
  assert.doesNotMatch(page, /id="secrets"/);
  assert.match(page, /<th scope="row">identity<\/th>/);
});

test("admin / has no row for the identity of a proxy without one", async () => {
  const view = fakeAdminView();
  const snapshot = view.snapshot();
  assert.ok(snapshot);
  const own = { ...view, snapshot: () => ({ ...snapshot, credentials: null }) };
  const app = createAdmin(own, { boundHost: "127.0.0.1" });
  const page = await (await app.request("/", { headers: LOCAL })).text();
  assert.match(page, /<th scope="row">service<\/th>/);
  assert.doesNotMatch(page, /<th scope="row">(identity|certificate)<\/th>/);
});

test("admin /listeners lists listeners that wait for secrets", async () => {
  const { text, json } = admin();
  assert.match(
    await text("/listeners"),
    /^service:default\/default\/late::-::warming::waiting for secrets of .* \(late, roots\)$/m,
  );
  const last = (await json("/listeners?format=postern")).listeners.at(-1);
  assert.deepEqual([last.state, last.direction], ["warming", "outbound"]);
});

test("admin /stats has Envoy's names beside ours", async () => {
  const { text, json, ask } = admin();
  const sds = await text("/stats?filter=^sds%5C.db-cert");
  assert.match(sds, /^sds\.db-cert\.update_rejected: 0$/m);
  assert.match(sds, /^sds\.db-cert\.version_text: "7"$/m);
  assert.doesNotMatch(sds, /^(?!sds\.db-cert)./m);
  const expiry = await text("/stats?filter=expiration_unix");
  assert.match(expiry, /^listener\.0\.0\.0\.0_21000\.ssl\.certificate\.\/etc\/tls\/web\.pem\./m);
  assert.match(await text("/stats"), /^snapshot_version: 7$/m);
  assert.equal((await ask("/stats?filter=(")).status, 400);
  assert.equal((await ask(`/stats?filter=${"(a{1000})".repeat(9)}`)).status, 400);
  const { stats } = await json("/stats?format=json&filter=days_until_first");
  assert.deepEqual(stats, [{ name: "server.days_until_first_cert_expiring", value: 0 }]);
  const prometheus = await text("/stats/prometheus");
  assert.match(prometheus, /^postern_snapshot_version 7$/m);
  assert.match(
    prometheus,
    /^envoy_sds_update_success\{envoy_xds_resource_name="db-cert",local_cluster="web",consul_source_service="web",consul_source_namespace="default",consul_source_partition="default",consul_source_datacenter="dc1"\} 0$/m,
  );
  assert.match(
    prometheus,
    /^envoy_server_days_until_first_cert_expiring\{local_cluster="web",.*\} 0$/m,
  );
  const types = prometheus.match(/^# TYPE \S+/gm) ?? [];
  assert.equal(new Set(types).size, types.length);
});
