/**
 * Envoy's answers to some hundred requests under intentions of every kind, recorded on a real Consul,
 * are what path and permissions decide here.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { prepareRegexes } from "../../src/base/mod.ts";
import { readIntentions } from "../../src/consul/replies/intentions.ts";
import { DEFAULT_PATH_RULES, normalizePath } from "../../src/http/mod.ts";
import { compilePolicy, type JudgedRequest, withoutTenancy } from "../../src/policy/mod.ts";
import { DevMesh } from "../kit/mesh/dev_mesh.ts";
import {
  DESTINATION,
  ENTRIES,
  type Question,
  QUESTIONS,
  recordedAnswers,
  shown,
} from "../kit/mesh/l7_intentions.ts";

/** As a listener hands it to the judge. */
function requestOf({ source, method, fields, body }: Question, path: string): JudgedRequest {
  const own = ["X-Request-Id: 1", `X-Forwarded-Client-Cert: URI=spiffe://td/svc/${source}`];
  const flat = [...fields, ...own].flatMap((field) => {
    const [, name = "", value = ""] = /^([^:]*):[ \t]*(.*?)[ \t]*$/.exec(field) ?? [];
    return [name.toLowerCase(), value, name];
  });
  const upgrade = flat.indexOf("upgrade");
  return {
    method,
    path,
    scheme: "https",
    authority: "db.test",
    length: body.length,
    fields: flat,
    saysLength: method !== "GET",
    upgrade: upgrade < 0 ? "" : flat[upgrade + 1] ?? "",
  };
}

for (const defaultAction of ["deny", "allow"] as const) {
  test(`requests are judged as Envoy judged them where the default is ${defaultAction}`, async () => {
    await prepareRegexes();
    await using mesh = await DevMesh.start();
    for (const entry of ENTRIES) await mesh.configEntry(entry);
    const match = `/v1/connect/intentions/match?by=destination&name=${DESTINATION}`;
    const read = readIntentions(await mesh.get(match), DESTINATION);
    const policy = compilePolicy({ intentions: withoutTenancy(read), defaultAction });
    const recorded = (await recordedAnswers())[defaultAction];
    const wrong: string[] = [];
    let judged = 0;
    for (const question of QUESTIONS) {
      const envoy = recorded[shown(question)];
      const path = normalizePath(question.path, DEFAULT_PATH_RULES);
      // A request that is invalid for Envoy is invalid for our codec.
      if (envoy === "404" || envoy === "400" && typeof path === "string") continue;
      const id = {
        trustDomain: "td",
        partition: "default",
        namespace: "default",
        datacenter: "dc1",
        service: question.source,
      };
      const judge = policy.forSource({ id, uri: "" });
      const ours = typeof path !== "string"
        ? `${path.status}`
        : judge.decide(requestOf(question, path)).kind === "deny"
        ? "403"
        : /^Upgrade: /m.test(question.fields.join("\n"))
        ? "101"
        : `200 ${path}`;
      judged++;
      if (ours !== envoy) wrong.push(`${shown(question)}: ${ours}, Envoy ${envoy}`);
    }
    assert.deepEqual(wrong, []);
    assert.ok(judged > 200, `only ${judged}`);
  });
}
