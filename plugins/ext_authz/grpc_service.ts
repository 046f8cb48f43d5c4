/** Calls the authorization service by gRPC: `envoy.service.auth.v3.Authorization/Check`. @module */

import type { Bytes, Host, HttpResponse } from "../../src/plugin/api.ts";
import { type Check, decodeCheckResponse, encodeCheckRequest } from "./check_messages.ts";
import type { GrpcService } from "./config.ts";
import { joined } from "./protobuf.ts";
import { ANSWER_LIMIT_BYTES, type AskAuthz, errorOf, reasonOf, type ShownBody } from "./verdict.ts";

const PATH = "/envoy.service.auth.v3.Authorization/Check";
/** Bytes before a message: the compression flag and the length. */
const PREFIX = 5;

export function askByGrpc(
  service: GrpcService,
  { host, packAsBytes }: { readonly host: Host; readonly packAsBytes: boolean },
): AskAuthz {
  const { target, timeoutMs, authority, initialMetadata } = service;
  const call = host.callee(target, { http2: true });
  const set = {
    ...initialMetadata,
    "content-type": "application/grpc",
    "grpc-timeout": `${timeoutMs}m`,
  };
  host.reply(200).headers.with({ set });
  return async (request) => {
    const check = encodeCheckRequest(request, { wallMs: host.clock.wall(), packAsBytes });
    const body = framed(check, request.body);
    const response = await call({
      method: "POST",
      path: PATH,
      headers: { set },
      body,
      ...(authority !== undefined && { authority }),
    }, { timeoutMs, limitBytes: ANSWER_LIMIT_BYTES, signal: request.signal });
    if (response.failure) return errorOf(response.failure);
    try {
      return decodeCheckResponse(await messageOf(response));
    } catch (error) {
      return errorOf({ code: "response_invalid", reason: reasonOf(error) });
    }
  };
}

/** Copies the message once; the shown body is read from the copy afterwards. */
function framed({ message, bodyAt }: Check, body: ShownBody | null): Bytes {
  const all = joined([new Uint8Array(PREFIX)], message);
  new DataView(all.buffer).setUint32(1, all.length - PREFIX);
  if (!body || bodyAt < 0) return all;
  const at = message.slice(0, bodyAt).reduce((sum, { length }) => sum + length, PREFIX);
  body.isIn(all.subarray(at, at + body.length));
  return all;
}

/** The only message of a successful call; throws if the call failed or has not exactly one message. */
async function messageOf({ status, headers, body }: HttpResponse): Promise<Uint8Array> {
  const type = headers.get("content-type") ?? "";
  const code = headers.get("grpc-status");
  if (status !== 200 || !type.startsWith("application/grpc")) {
    throw new TypeError(`it answered with status ${status}, and not as gRPC does`);
  }
  if (code !== "0") {
    throw new TypeError(`it ended with the gRPC status ${code ?? "that it left out"}`);
  }
  const all = body ? await body.bytes(ANSWER_LIMIT_BYTES) : new Uint8Array();
  if (all.length < PREFIX || all[0] !== 0) throw new TypeError("it sent no message");
  const length = new DataView(all.buffer, all.byteOffset).getUint32(1);
  if (length !== all.length - PREFIX) throw new TypeError("it did not send one message");
  return all.subarray(PREFIX);
}
