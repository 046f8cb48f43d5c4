/**
 * Envoy's `DownstreamTlsContext` and `UpstreamTlsContext`, as pasted from its configuration, with the
 * transport socket around them or without. What cannot be honoured is refused by its path.
 *
 * @module
 */

import * as v from "valibot";
import { NO_RULES } from "../../identity/mod.ts";
import { anyOf, choice, message, number } from "../envoy/message.ts";
import { checked, defined, flag, isRecord, type SchemaOf } from "../../base/schema.ts";
import type { ValidationRef } from "../plan.ts";
import type { TlsForm, TlsReading } from "./tls_context.ts";
import { commonContext } from "./envoy_common.ts";

const MARKS = [
  "@type",
  "common_tls_context",
  "commonTlsContext",
  "transport_socket",
  "transportSocket",
  "typed_config",
  "typedConfig",
];
const TYPES = "envoy.extensions.transport_sockets.tls.v3.";
const SOCKET_NAMES = ["envoy.transport_sockets.tls", "tls"];

export function isEnvoyForm(value: unknown): boolean {
  return isRecord(value) && MARKS.some((mark) => Object.hasOwn(value, mark));
}

export function envoyForm(reading: TlsReading): SchemaOf<TlsForm> {
  const own = reading.kind === "listener" ? "DownstreamTlsContext" : "UpstreamTlsContext";
  const bare = reading.kind === "listener" ? downstreamContext(reading) : upstreamContext(reading);
  const typed = anyOf({ [TYPES + own]: bare });
  const socket = transportSocket(typed);
  const wrapped = checked(message({ transportSocket: socket }), (found) => found.transportSocket);
  return v.lazy((value) => {
    const has = (...keys: string[]) =>
      isRecord(value) && keys.some((key) => Object.hasOwn(value, key));
    if (has("transport_socket", "transportSocket")) return wrapped;
    if (has("typed_config", "typedConfig")) return socket;
    return has("@type") ? typed : bare;
  });
}

function transportSocket<T>(typed: SchemaOf<T>): SchemaOf<T> {
  const fields = message({
    name: v.exactOptional(v.picklist(SOCKET_NAMES, "must be envoy.transport_sockets.tls")),
    typedConfig: typed,
  });
  // Valibot cannot see that a required field of a generic schema is there.
  return checked(fields, (found) => found.typedConfig as T);
}

function downstreamContext(reading: TlsReading): SchemaOf<TlsForm> {
  const own = "cannot be honoured: the TLS library makes its own keys for session tickets";
  const fields = message({
    commonTlsContext: commonContext(reading),
    requireClientCertificate: v.optional(flag(), false),
    disableStatelessSessionResumption: v.exactOptional(flag()),
    disableStatefulSessionResumption: v.exactOptional(flag()),
    ocspStaplePolicy: v.optional(
      choice({ LENIENT_STAPLING: [0, true], STRICT_STAPLING: [1, false], MUST_STAPLE: [2, false] }),
      "LENIENT_STAPLING",
    ),
  }, {
    refused: {
      sessionTicketKeys: own,
      sessionTicketKeysSdsSecretConfig: own,
      sessionTimeout: own,
      requireSni: "cannot be honoured: it is not of any release of Envoy either",
      fullScanCertsOnSniMismatch: "cannot be honoured: where no name fits, the first is shown",
      preferClientCiphers: "cannot be honoured: the server's order of suites decides",
    },
  });
  return checked(fields, (found, report): TlsForm | undefined => {
    const { certificates, validation, tls, selector } = found.commonTlsContext;
    const required = found.requireClientCertificate;
    if (!found.ocspStaplePolicy) {
      report(["ocsp_staple_policy"], "cannot be honoured: only LENIENT_STAPLING is known");
    }
    if (found.disableStatelessSessionResumption || found.disableStatefulSessionResumption) {
      reading.warn("resumption stays enabled: a resumed session's client is judged again");
    }
    const onDemand = selector?.kind === "on_demand" ? selector.plan : null;
    if (certificates.length === 0 && !onDemand) {
      report(["common_tls_context"], "has no certificate, and a listener shows one");
    }
    if (required && (!validation || validation === "nobody")) {
      return report(
        ["require_client_certificate"],
        "needs a validation context that says whom to accept; to accept anyone, say " +
          "trust_chain_verification: ACCEPT_UNTRUSTED",
      );
    }
    const trust = validation === "nobody" ? null : validation;
    // As in Envoy, pins and matchers are of no use without a certificate.
    const always = required || (trust !== null && demands(trust));
    return {
      plan: {
        certificates,
        validation: trust,
        requireClientCertificate: always,
        // Its SPIFFE validator demands one, too; whether that is what comes is not known yet.
        ...(!always && trust && trust.secret.source.kind !== "spec" && { requireForSpiffe: true }),
        onDemand,
        ...defined({ tls }),
      },
    };
  });
}

function upstreamContext(reading: TlsReading): SchemaOf<TlsForm> {
  const sanFix = "cannot be honoured: give sni and match_typed_subject_alt_names";
  const fields = message({
    commonTlsContext: commonContext(reading),
    sni: v.exactOptional(
      v.pipe(v.string("must be a text"), v.maxLength(255, "is longer than 255")),
    ),
    // It limits the client's cache, whose size is our own.
    maxSessionKeys: v.exactOptional(number(0, 4_294_967_295)),
    enforceRsaKeyUsage: v.exactOptional(
      v.literal(true, "must be true: the usage of keys is always enforced"),
    ),
  }, {
    refused: {
      allowRenegotiation: "cannot be honoured: nothing is renegotiated",
      autoHostSni: sanFix,
      autoSniSanValidation: sanFix,
    },
  });
  return checked(fields, (found, report): TlsForm | undefined => {
    const { certificates, validation, tls, selector } = found.commonTlsContext;
    const { sni } = found;
    if (certificates.length > 1) {
      report(["common_tls_context"], "has several certificates; an upstream is shown one");
    }
    if (selector?.kind === "on_demand") {
      report(
        ["common_tls_context", "custom_tls_certificate_selector"],
        "cannot be honoured for an upstream; use static_name.v3.StaticName as certificate_mapper",
      );
    }
    if (!validation || validation === "nobody") {
      return report(
        ["common_tls_context"],
        "has no validation context that says whom to accept; to accept any server, say " +
          "validation_context: { trust_chain_verification: ACCEPT_UNTRUSTED }",
      );
    }
    return {
      plan: {
        certificates,
        validation,
        requireClientCertificate: true,
        onDemand: null,
        ...defined({ tls }),
      },
      ...(sni && { sni }),
    };
  });
}

/** In Envoy these rules fail a client that shows nothing. */
function demands({ secret, defaults }: ValidationRef): boolean {
  const own = secret.source.kind === "spec" && secret.source.spec.type === "validation"
    ? secret.source.spec
    : undefined;
  return [own, defaults].some((spec) => {
    const { matchers, spkiPins, certificateHashes } = spec?.rules ?? NO_RULES;
    return spec?.spiffe !== undefined ||
      matchers.length + spkiPins.length + certificateHashes.length > 0;
  });
}
