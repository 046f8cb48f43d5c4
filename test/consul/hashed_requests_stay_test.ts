import { CONSUL } from "../kit/mesh/consul.ts";
import { hashedRequests } from "../stories/hashed_requests.ts";

hashedRequests(CONSUL);
