# The configs that k-diffusion ships make models; where the dataset needs Python, a line says what to do.
kd-init "$GOLDEN/configs/config_mnist_transformer.json" --seed 1 -o mnist.safetensors
for name in cifar10_transformer oxford_flowers oxford_flowers_shifted_window; do
    kd-init "$GOLDEN/configs/config_$name.json" --dtype bf16 --no-history | wc -c
done
kd-init -q "$GOLDEN/configs/config_oxford_flowers.json" --dtype bf16 --no-history | wc -c
ls
