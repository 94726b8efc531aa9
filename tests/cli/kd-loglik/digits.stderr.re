^kd-loglik: 1 image: [0-9.]* nats \(standard error 0.00\), [0-9.]* bits/dim, [0-9]* calls an image$
