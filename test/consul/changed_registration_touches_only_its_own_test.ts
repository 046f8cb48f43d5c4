import { CONSUL } from "../kit/mesh/consul.ts";
import { changedRegistration } from "../stories/changed_registration.ts";

changedRegistration(CONSUL);
