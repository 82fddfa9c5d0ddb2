//! Posts the messages of a workload as work requests of queue pairs.

use xoff_rdma::{Verb as RdmaVerb, WorkRequest};
use xoff_workload::MessagePost;

use super::Jobs;
use super::queue_pairs::rdma_verb;
use super::transport::used_queue_pairs;
use crate::job_hosts::JobHosts;

impl Jobs {
    /// Posts the messages that the workload has returned.
    pub(super) fn submit_posts(&mut self, hosts: &mut impl JobHosts) {
        let mut posts = std::mem::take(&mut self.posts);
        for post in posts.drain(..) {
            self.post_message(hosts, &post);
        }
        self.posts = posts;
    }

    fn post_message(&mut self, hosts: &mut impl JobHosts, post: &MessagePost) {
        let pairs = self.queue_pairs.connection_mut(post.connection);
        let bytes_max = pairs.request_bytes_max;
        let (first, parts) = match pairs.count {
            1 => (0, 1),
            _ => {
                let connection = &self.workload.connections()[post.connection as usize];
                match used_queue_pairs(connection, post.bytes) {
                    parts if parts > 1 => (0, parts),
                    _ => (u32::from(pairs.take_next()), 1),
                }
            }
        };
        let (host, first_pair) = (pairs.poster, pairs.first_pair + first);
        if parts == 1 && post.bytes <= bytes_max {
            self.post_request(hosts, post, (host, first_pair), post.bytes);
            return;
        }
        // The first parts carry the remaining bytes.
        let part_bytes = |part: u64| post.bytes / parts + u64::from(part < post.bytes % parts);
        let requests: u64 = (0..parts)
            .map(|part| part_bytes(part).div_ceil(bytes_max).max(1))
            .sum();
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        self.workload.divide_message(post.message, requests);
        for part in 0..parts {
            let mut left = part_bytes(part);
            loop {
                let bytes = left.min(bytes_max);
                self.post_request(hosts, post, (host, first_pair + part as u32), bytes);
                left -= bytes;
                if left == 0 {
                    break;
                }
            }
        }
    }

    /// Posts one work request of a message at a host, on a pair.
    fn post_request(
        &mut self,
        hosts: &mut impl JobHosts,
        post: &MessagePost,
        (host, pair): (u32, u32),
        bytes: u64,
    ) {
        let request = WorkRequest {
            id: post.message.0,
            verb: rdma_verb(post.verb),
            bytes,
        };
        let pair = self.queue_pairs.pair_mut(pair);
        let qp = pair.poster_qp;
        if request.verb != RdmaVerb::Read {
            pair.expect(post.message);
        }
        let posted = hosts.change_host(host as usize, |host, now| host.post(now, qp, request));
        if let Err(why) = posted {
            self.record_failure((hosts.now(), host as usize), post.connection, why.to_string());
        }
    }
}
